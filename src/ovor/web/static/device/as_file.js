// Says why nothing happens where index.html was opened as a file: browsers load no modules then, so this is none.

if (location.protocol === "file:") {
  const said = document.getElementById("gone");
  said.textContent =
    "Browsers do not run this page from a file: put its folder on a web server, or start one in the folder by " +
    "“python -m http.server”, and open localhost:8000.";
  said.hidden = false;
  document.getElementById("device-engine").textContent = "";
}
