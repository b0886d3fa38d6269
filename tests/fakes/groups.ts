// Who lives: looks at processes as the system shows them, for tests that kill things.

import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

type Seen = { pid: number; group: number; command: string }

/** Every process that lives; one that only waits to be collected by its parent does not. Linux only. */
function everyone(): Seen[] {
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return []
    try {
      const text = readFileSync(`/proc/${name}/stat`, 'utf8')
      const [state, , group] = text.slice(text.lastIndexOf(')') + 2).split(' ')
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' ')
      return state === 'Z' ? [] : [{ pid: Number(name), group: Number(group), command }]
    } catch {
      return [] // it ended meanwhile
    }
  })
}

/** The commands of the process group that still live. */
export const membersOf = (group: number): string[] =>
  everyone().flatMap((seen) => (seen.group === group ? [seen.command] : []))

/** Waits until nobody of the group is left; false when somebody still is after `ms`. The system has no event for it. */
export async function groupIsGone(group: number, ms = 3_000): Promise<boolean> {
  const end = performance.now() + ms
  while (membersOf(group).length > 0) {
    if (performance.now() > end) return false
    await pause(20)
  }
  return true
}
