export { destination, pino } from "pino";
