// Prisma 7. Its type BigInt is a BigInt in the program. A number is accepted for it, too, and was rounded before.
//
//   npm install snowlease @prisma/client @prisma/adapter-pg prisma
//   npx prisma generate --schema schema.prisma
//   DATABASE_URL=postgres://postgres@localhost/postgres node prisma.mjs
//
// What it generates is TypeScript, which Node reads from 22.18 on; an older one does with `node --import tsx prisma.mjs`.
import assert from "node:assert/strict";
import { PrismaPg } from "@prisma/adapter-pg";
import { snowlease } from "snowlease";
import { PrismaClient } from "./prisma/client.ts";

const ids = await snowlease();
const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL });
const prisma = new PrismaClient({ adapter });
// In place of `prisma migrate`.
await prisma.$executeRaw`DROP TABLE IF EXISTS orders_prisma`;
await prisma.$executeRaw`CREATE TABLE orders_prisma (id BIGINT PRIMARY KEY, item TEXT NOT NULL)`;

const tea = { id: await ids.nextAsync(), item: "tea" };
const milk = { id: await ids.nextAsync(), item: "milk" };
await prisma.order.createMany({ data: [milk, tea] });

assert.deepEqual(await prisma.order.findUnique({ where: { id: tea.id } }), tea);
assert.deepEqual(await prisma.order.findMany({ orderBy: { id: "asc" } }), [tea, milk]);
assert.deepEqual(await prisma.$queryRaw`SELECT id, item FROM orders_prisma WHERE id = ${tea.id}`, [tea]);

console.log(`prisma: ${tea.id} came back as it was`);
await prisma.$disconnect();
await ids.close();
