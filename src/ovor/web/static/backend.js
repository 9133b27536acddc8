// What the page speaks to: an object with a method for each thing that one can do. Here it is the
// server; another one with the same methods may take its place.

export { http as backend } from "./api.js";
