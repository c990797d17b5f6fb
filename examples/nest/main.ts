// A service with NestJS. The generator is a provider: it is made before the application starts, and closed when it shuts down.
//
//   SNOWLEASE_REGISTRY=redis://localhost PORT=3000 npx tsx --tsconfig examples/nest/tsconfig.json examples/nest/main.ts
//   curl -X POST http://127.0.0.1:3000/orders      # {"id":"1278549019894743040"}: as text, which JavaScript's numbers are too short for
import "reflect-metadata";
import { Controller, Get, Inject, Module, Post, ServiceUnavailableException } from "@nestjs/common";
import type { OnApplicationShutdown } from "@nestjs/common";
import { NestFactory } from "@nestjs/core";
import { Snowflake, snowlease } from "snowlease";

@Controller()
class Orders {
  readonly #ids: Snowflake;

  constructor(@Inject(Snowflake) ids: Snowflake) {
    this.#ids = ids;
  }

  // Waits for up to 5 s where there is no ID at once. Answers 503 after that: another instance may have some.
  @Post("orders")
  async create(): Promise<{ readonly id: string }> {
    return { id: await this.#ids.nextStringAsync() };
  }

  @Get("ready")
  ready(): void {
    if (!this.#ids.health().ok) throw new ServiceUnavailableException();
  }
}

@Module({ controllers: [Orders], providers: [{ provide: Snowflake, useFactory: () => snowlease() }] })
class AppModule implements OnApplicationShutdown {
  readonly #ids: Snowflake;

  constructor(@Inject(Snowflake) ids: Snowflake) {
    this.#ids = ids;
  }

  // The server is closed by now: nobody asks for IDs any more.
  onApplicationShutdown(): Promise<void> {
    return this.#ids.close();
  }
}

// A connection without a request would hold up the end.
const app = await NestFactory.create(AppModule, { logger: ["error", "warn"], forceCloseConnections: true });
app.enableShutdownHooks([], { useProcessExit: true });
await app.listen(Number(process.env.PORT ?? 3000), "127.0.0.1");
console.log(await app.getUrl());
// Lost for good (a worker ID that was asked for by name): whoever watches over this process starts it anew.
app.get<Snowflake>(Snowflake).lease.signal.addEventListener("abort", () => {
  process.exitCode = 1;
  void app.close();
});
