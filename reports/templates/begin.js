// Before the page is laid out: a long table is not drawn as it stands, only to be drawn anew.
document.documentElement.classList.add("scripted");
