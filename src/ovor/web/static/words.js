// What people call what the model reads, as it says itself: images, or writing such as texts.

let said = { one: "image", many: "images", written: false };

export const one = () => said.one;
export const many = () => said.many;
/** Whether it is writing: typed, pasted and quoted, where images are drawn, filmed and shown. */
export const written = () => said.written;
export const items = (number) => `${number} ${number === 1 ? said.one : said.many}`;
/** At the beginning of a sentence. */
export const upper = (word) => word.charAt(0).toUpperCase() + word.slice(1);

/** Speak of what a model reads, here and in all elements that have a `data-word`. */
export function speak(reads) {
  if (!reads) return;
  said = reads;
  document.body.classList.toggle("written", said.written);
  for (const node of document.querySelectorAll("[data-word]")) {
    const word = said[node.dataset.word.toLowerCase()];
    node.textContent = /^[A-Z]/.test(node.dataset.word) ? upper(word) : word;
  }
}
