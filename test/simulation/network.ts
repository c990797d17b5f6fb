import { SnowleaseError } from "../../src/id/errors.ts";
import type { Registry } from "../../src/rule/registry.ts";
import type { Leasing } from "./store.ts";
import type { Machine, World } from "./world.ts";

/** How often each fate happens to a message. */
export interface Weather {
  readonly loseRequest: number;
  readonly loseReply: number;
  /** The caller gives up, and the message arrives later. */
  readonly lateRequest: number;
  /** The same for give-backs, where it is more frequent. */
  readonly lateRelease?: number;
  readonly repeatRequest: number;
}

/**
 * The way from a machine to the registry. Every request and every reply waits until the scheduler lets it arrive; it may
 * be lost, doubled, or late, after the caller got no answer.
 * @param server the machine that answers, if it can stop and die like any other.
 */
export function overNetwork(
  world: World,
  machine: Machine,
  registry: Leasing,
  weather: Weather,
  server?: Machine,
): Registry {
  const { random } = world;

  function carry<Request, Answer>(
    call: (request: Request) => Promise<Answer>,
    lateness: number = weather.lateRequest,
  ): (request: Request) => Promise<Answer> {
    return (request) =>
      new Promise<Answer>((resolve, reject) => {
        const noAnswer = (): void =>
          reject(new SnowleaseError("REGISTRY_UNAVAILABLE", "No answer in this simulation."));
        const lost = server?.dead === true || random.chance(weather.loseRequest);
        const late = !lost && random.chance(lateness);
        if (lost || late) world.later(machine, noAnswer);
        if (lost) return;
        const arrive = (): void => {
          call(request).then(
            (answer) => {
              if (random.chance(weather.loseReply)) world.later(machine, noAnswer);
              else world.later(machine, () => resolve(answer));
            },
            (error: Error) => world.later(machine, () => reject(error)),
          );
        };
        // The request itself travels on when its sender stops or dies.
        world.later(server, arrive);
        if (random.chance(weather.repeatRequest)) world.later(server, arrive);
      });
  }

  const { takeBlocks } = registry;
  const reached: Leasing = {
    claim: carry((request) => registry.claim(request)),
    renew: carry((request) => registry.renew(request)),
    release: carry((request) => registry.release(request), Math.max(weather.lateRequest, weather.lateRelease ?? 0)),
    forceRelease: (request) => registry.forceRelease(request),
    describe: (namespace) => registry.describe(namespace),
    ...(takeBlocks && { takeBlocks: carry(takeBlocks) }),
  };
  // A lease calls no other operation.
  return reached as Registry;
}
