"""Evidence maximisation: coordinates, objective, steps, solver, standard errors and the linear limit."""
