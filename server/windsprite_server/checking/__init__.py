"""`windsprite-server check`: what a data directory holds, and whether it is sound."""
