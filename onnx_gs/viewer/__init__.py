"""Looking at models: one self-contained page with the graph, laid out in the browser."""
