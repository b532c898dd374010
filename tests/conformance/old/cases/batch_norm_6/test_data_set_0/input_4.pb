Bx4Jäm“?Fº,?tz
@