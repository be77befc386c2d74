"""The routes, one file for each noun. They hold no logic: they read the request, call the library, and make the response."""
