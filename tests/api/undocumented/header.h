/* A header with a name of each kind that is undocumented, which test_headers.py must find. */
#ifndef REPRISE_HEADER_H_
#define REPRISE_HEADER_H_

/** @defgroup undocumented Undocumented
 * @{ */

#define REPRISE_UNDOCUMENTED_MACRO 1

/** An enumeration. */
typedef enum reprise_enumeration {
  REPRISE_DOCUMENTED_NUMBER = 1, /**< a number */
  REPRISE_UNDOCUMENTED_NUMBER = 2
} reprise_enumeration;

typedef enum reprise_undocumented_enumeration {
  REPRISE_OTHER_NUMBER = 1 /**< a number */
} reprise_undocumented_enumeration;

typedef struct reprise_undocumented_handle reprise_undocumented_handle;

typedef struct reprise_undocumented_struct {
  int documented_member; /**< a member */
} reprise_undocumented_struct;

/** A struct. */
typedef struct reprise_struct {
  int undocumented_member;
  void (*undocumented_pointer)(int); /* no documentation */
} reprise_struct;

int reprise_undocumented_function(int number);

/** This function is reprise_no_function. */
int reprise_function(int number);

/** @} */

#endif
