"""How a kernel runs: profiles, traces, pictures and annotated source."""
