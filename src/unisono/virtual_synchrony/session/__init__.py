"""A client of the membership servers: reliable streams, and the algorithm that takes all from view to view together."""
