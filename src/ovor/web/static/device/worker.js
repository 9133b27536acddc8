// The worker of the page: a call comes as {id, method, args}, and its answer goes back with the id.

import { Service } from "./service.js";

const base = new URL("../../", import.meta.url).href;
const service = Service.open(base, (loaded) => postMessage({ loaded }));
service.catch(() => {}); // every call hears of it

const told = (error) => ({
  message: error.message,
  status: error.status ?? 422,
  alike: error.alike ?? [],
  images: error.images ?? [],
});

const lesson = (state) => postMessage({ lesson: state });

self.addEventListener("message", async ({ data: { id, method, args } }) => {
  try {
    const found = await (await service)[method](...args, lesson);
    postMessage({ id, found });
  } catch (error) {
    postMessage({ id, error: told(error) });
  }
});
