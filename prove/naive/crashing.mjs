// A program that ends by itself.

export async function open() {
  console.error("it was bound to happen");
  process.exit(7);
}
