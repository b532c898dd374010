
nothing