// Sets the chosen theme before anything is drawn.
try {
  const theme = localStorage.getItem("windlass.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // storage is off: the theme of the system
}
