// With Prisma, on PostgreSQL: `npx prisma generate`, then DATABASE_URL=postgres://…

import { PrismaPg } from "@prisma/adapter-pg";
import { snowlease } from "snowlease";
import { PrismaClient } from "./generated/client.ts";

const ids = await snowlease({ registry: process.env["REGISTRY"] ?? "memory:" });
const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env["DATABASE_URL"] ?? "" }) });
await prisma.$executeRaw`CREATE TABLE prisma_orders (id BIGINT PRIMARY KEY, note TEXT NOT NULL)`;

// In schema.prisma: id BigInt @id
const made = await prisma.order.create({ data: { id: await ids.nextAsync(), note: "tea" } });
const found = await prisma.order.findUniqueOrThrow({ where: { id: made.id } }); // { id: 1278549019894743040n, … }
console.log(String(made.id), String(found.id));

await prisma.$disconnect();
await ids.close();
