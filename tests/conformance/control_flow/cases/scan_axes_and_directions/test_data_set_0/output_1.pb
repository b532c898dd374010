BallJ(Øc¿|6i¿Zh¿¨ªl¿ìy¿3w9¿Ê>=¿ÂE7¿ZWG¿
÷è¾