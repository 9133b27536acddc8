// What the page speaks to where there is no server: the same methods, on the device itself.
// An exported page has this file in the place of backend.js.

export { device as backend } from "./device/backend.js";
