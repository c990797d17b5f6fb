// A module for NestJS: the generator is a provider, made before the application starts and closed when it shuts down.
//
//   SNOWLEASE_REGISTRY=redis://localhost npx tsx examples/nest.ts
//
// Written without decorators, so that it runs wherever TypeScript's types are merely stripped. With them, a service says
//
//   @Injectable()
//   class Orders {
//     constructor(private readonly ids: Snowflake) {}
//   }
import "reflect-metadata";
import type { DynamicModule, OnApplicationShutdown } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Snowflake, snowlease, type SnowleaseOptions } from "snowlease";

export class SnowleaseModule {
  /** Import it once, at the root: it is there for all modules. */
  static forRoot(options: SnowleaseOptions = {}): DynamicModule {
    return {
      module: SnowleaseModule,
      global: true,
      providers: [
        { provide: Snowflake, useFactory: () => snowlease(options) },
        {
          provide: "SNOWFLAKE_AT_SHUTDOWN",
          inject: [Snowflake],
          // After `onModuleDestroy` and `beforeApplicationShutdown`, in which connections are closed: no request needs an ID any more.
          useFactory: (ids: Snowflake): OnApplicationShutdown => ({ onApplicationShutdown: () => ids.close() }),
        },
      ],
      exports: [Snowflake],
    };
  }
}

class Orders {
  readonly #ids: Snowflake;

  constructor(ids: Snowflake) {
    this.#ids = ids;
  }

  async create(): Promise<{ readonly id: string }> {
    return { id: String(await this.#ids.nextAsync()) };
  }
}

class AppModule {
  static register(): DynamicModule {
    return {
      module: AppModule,
      imports: [SnowleaseModule.forRoot()],
      providers: [{ provide: Orders, inject: [Snowflake], useFactory: (ids: Snowflake) => new Orders(ids) }],
    };
  }
}

const app = await NestFactory.createApplicationContext(AppModule.register(), { logger: ["error"] });
// SIGTERM and the like.
app.enableShutdownHooks();
for (let order = 0; order < 10; order++) console.log((await app.get(Orders).create()).id);
await app.close();
