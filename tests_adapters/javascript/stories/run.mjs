// Run the stories of one file against a server, and print what each saw: node run.mjs FILE URL
const SECONDS = 90;
const [file, url] = process.argv.slice(2);

function timeOut() {
  return new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`not done after ${SECONDS} s`)), SECONDS * 1000).unref();
  });
}

async function runStory([name, story]) {
  try {
    return [name, await Promise.race([story(url), timeOut()])];
  } catch (error) {
    return [name, { failed: String(error?.stack ?? error) }];
  }
}

const stories = Object.entries(await import(`./${file}`));
const results = Object.fromEntries(await Promise.all(stories.map(runStory)));
process.stdout.write(JSON.stringify(results), () => process.exit(0));
