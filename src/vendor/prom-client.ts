export { collectDefaultMetrics, Counter, Gauge, Histogram, type LabelValues, Registry } from "prom-client";
