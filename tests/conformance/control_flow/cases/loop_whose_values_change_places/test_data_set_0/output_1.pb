BybJfff¿®¿×#¾@
W>