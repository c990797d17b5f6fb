// The process of one case. It does what it is told: make, warm, round, check, close.

const [module, group, name] = process.argv.slice(2);
let subject;

async function obey(what) {
  if (what === "make") {
    const { groups } = await import(module);
    subject = await groups[group].cases[name]();
    process.send(null);
  } else {
    process.send((await subject[what]?.()) ?? null);
  }
}

process.on("message", (what) => void obey(what));
process.on("disconnect", () => process.exit());
