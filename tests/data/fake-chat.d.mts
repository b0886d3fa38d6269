export type FakeTurn = { text?: string; tools?: { name: string; args: unknown; id?: string }[]; reasoning?: string; fault?: string }
export type FakeChat = {
  port: number
  url: string
  queue(...turns: FakeTurn[]): void
  // oxlint-disable-next-line typescript/no-explicit-any -- what a provider is sent has any shape
  requests(): { method: string; url: string; headers: Record<string, string>; body: any }[]
  setFaults(faults: string): void
  reset(): void
  close(): Promise<void>
}
export const DEFAULT_ANSWER: string
export function startFakeChat(options?: { port?: number; answer?: string; fault?: string; delay?: number; chunkDelay?: number }): Promise<FakeChat>
