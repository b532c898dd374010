/** @file
 * Builds a graph for the compiler without a model file: the way in for front ends. C interface; the
 * rules of reprise.h on handles, errors and structs apply. Include compiler.h, which has the
 * functions that compile a graph.
 *
 * A graph consists of operators of ONNX, of any domain and version, and of the compiler's own
 * operators in core form. Each call checks what it is given and infers types at once. After an
 * error, whose nodes reprise_error_node names, the graph is as it was before the call.
 *
 * Values and bodies are numbers that calls return, REPRISE_GRAPH_NONE is an operand that is left
 * out. Sizes are texts: "8", the name of a symbol that was declared, or an expression of such names
 * with +, -, *, floordiv(a, b), mod(a, b), min(a, b) and max(a, b).
 *
 * One thread at a time may use a graph. */
#ifndef REPRISE_GRAPH_H_
#define REPRISE_GRAPH_H_

/* NOLINTBEGIN(modernize-*): this is C */

#include "reprise/reprise.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup graph Graph builder
 * Graphs without a model file, for front ends. graph.h states its rules.
 * @{ */

/** A graph that is being built, or that was compiled. Free it with reprise_graph_free. */
typedef struct reprise_graph reprise_graph;

/** No value: an operand that is left out. */
#define REPRISE_GRAPH_NONE (-1)

/** How a graph begins. The call copies what it points to. */
typedef struct reprise_graph_options {
  size_t struct_size; /**< as its initialiser sets it */
  const char* name;   /**< of the graph; null: "graph" */
  /** Versions of domains for nodes that give none. "" is the default domain, whose version is 26
   * unless it is listed. */
  const char* const* domains;
  const int64_t* versions; /**< parallel to `domains` */
  size_t domain_count;     /**< how many `domains` has */
} reprise_graph_options;
/** Initialises a reprise_graph_options. */
#define REPRISE_GRAPH_OPTIONS_INIT \
  { sizeof(reprise_graph_options), NULL, NULL, NULL, 0 }

/** What an attribute holds. The numbers never change. */
typedef enum reprise_attribute_kind {
  REPRISE_ATTRIBUTE_INT = 0,     /**< ints[0] */
  REPRISE_ATTRIBUTE_INTS = 1,    /**< `count` ints */
  REPRISE_ATTRIBUTE_FLOAT = 2,   /**< floats[0] */
  REPRISE_ATTRIBUTE_FLOATS = 3,  /**< `count` floats */
  REPRISE_ATTRIBUTE_STRING = 4,  /**< texts[0] */
  REPRISE_ATTRIBUTE_STRINGS = 5, /**< `count` texts */
  REPRISE_ATTRIBUTE_SIZES = 6,   /**< `count` texts of sizes; of operators in core form */
  REPRISE_ATTRIBUTE_TENSOR = 7,  /**< `tensor`, which is copied */
  REPRISE_ATTRIBUTE_BODY = 8,    /**< `body`, of control flow */
  REPRISE_ATTRIBUTE_KIND_MAX_ENUM = 0x7FFFFFFF /**< no kind */
} reprise_attribute_kind;

/** An attribute of a node. The call copies what it points to. */
typedef struct reprise_graph_attribute {
  size_t struct_size;           /**< as its initialiser sets it */
  const char* name;             /**< of the attribute, such as "axis" */
  reprise_attribute_kind kind;  /**< which of the members below it has */
  int32_t body;                 /**< what reprise_graph_end_body gave */
  size_t count;                 /**< how many numbers or texts it has */
  const int64_t* ints;          /**< of the kinds INT and INTS */
  const float* floats;          /**< of the kinds FLOAT and FLOATS */
  const char* const* texts;     /**< of the kinds STRING, STRINGS and SIZES */
  const reprise_tensor* tensor; /**< in host memory; its name is not used */
} reprise_graph_attribute;
/** Initialises a reprise_graph_attribute. */
#define REPRISE_GRAPH_ATTRIBUTE_INIT                                                           \
  {                                                                                            \
    sizeof(reprise_graph_attribute), NULL, REPRISE_ATTRIBUTE_INT, REPRISE_GRAPH_NONE, 0, NULL, \
        NULL, NULL, NULL                                                                       \
  }

/** A node. The call copies what it points to. */
typedef struct reprise_graph_node {
  size_t struct_size;    /**< as its initialiser sets it */
  const char* op;        /**< the operator, such as MatMul */
  const char* domain;    /**< null or "": the default domain */
  const char* name;      /**< for errors and reports; null or "": made from the operator */
  int64_t version;       /**< of the domain; 0: that of the graph. In bodies always 0. */
  const int32_t* inputs; /**< values, or REPRISE_GRAPH_NONE */
  size_t input_count;    /**< how many `inputs` has */
  const reprise_graph_attribute* attributes; /**< in any order */
  size_t attribute_count;                    /**< how many `attributes` has */
  size_t output_count;                       /**< how many values the node has */
  const char* const* output_names;           /**< null, or one for each output, which may be null */
  /** 1: an operator in core form, which has no domain, version and bodies.
   * codegen/graph/semantics.md in the sources lists them. */
  int32_t core;
  /** The dtype of the first output, of operators in core form that need it (Slice, Range), if
   * `result_shape` is not null. */
  reprise_dtype result_dtype;
  const char* const* result_shape; /**< the sizes, or null */
  size_t result_rank;              /**< how many `result_shape` has */
} reprise_graph_node;
/** Initialises a reprise_graph_node. */
#define REPRISE_GRAPH_NODE_INIT                                                                 \
  {                                                                                             \
    sizeof(reprise_graph_node), NULL, NULL, NULL, 0, NULL, 0, NULL, 0, 1, NULL, 0, REPRISE_F32, \
        NULL, 0                                                                                 \
  }

/** Makes an empty graph. `options` may be null. */
REPRISE_API reprise_status reprise_graph_create(const reprise_graph_options* options,
                                                reprise_graph** out, reprise_error* error);
/** Frees the graph. Packages that were compiled from it keep what they need. */
REPRISE_API void reprise_graph_free(reprise_graph* graph);

/** Declares a size that runs decide. The first input that has it as a dim, alone or in a sum such
 * as "4*h + 1", gives it its value. A run with a size outside [min, max], or that is no multiple of
 * `divisor`, is refused. */
REPRISE_API reprise_status reprise_graph_symbol(reprise_graph* graph, const char* name, int64_t min,
                                                int64_t max, int64_t divisor, reprise_error* error);
/** Refuses runs in which a relation of two sizes does not hold: "==", ">=", "broadcast" (equal, or
 * either is 1) or "broadcast_to" (equal, or the left one is 1). Their errors name `what`. */
REPRISE_API reprise_status reprise_graph_guard(reprise_graph* graph, const char* left,
                                               const char* relation, const char* right,
                                               const char* what, reprise_error* error);
/** Adds an input, in the order of calls. `dims` are `rank` sizes. */
REPRISE_API reprise_status reprise_graph_input(reprise_graph* graph, const char* name,
                                               reprise_dtype dtype, const char* const* dims,
                                               size_t rank, int32_t* value, reprise_error* error);
/** Adds a constant: name, dtype, dims, data and bytes of `tensor`, in host memory. Types of fewer
 * than 8 bits have one byte an element. Without a name, one is made up. If `borrow` is 0, the
 * elements are copied. Otherwise they must stay as they are while the graph and packages that were
 * compiled from it exist. */
REPRISE_API reprise_status reprise_graph_constant(reprise_graph* graph,
                                                  const reprise_tensor* tensor, int32_t borrow,
                                                  int32_t* value, reprise_error* error);
/** Adds an input that sessions keep from run to run. `initial` is its first value, as for a
 * constant that is copied. */
REPRISE_API reprise_status reprise_graph_state(reprise_graph* graph, const reprise_tensor* initial,
                                               int32_t* value, reprise_error* error);
/** Makes a value the next one of a state, and an output of this name. */
REPRISE_API reprise_status reprise_graph_next_state(reprise_graph* graph, int32_t state,
                                                    int32_t next, const char* name,
                                                    reprise_error* error);
/** Makes a value an output, in the order of calls. */
REPRISE_API reprise_status reprise_graph_output(reprise_graph* graph, const char* name,
                                                int32_t value, reprise_error* error);
/** Adds a node, and writes its `output_count` values to `outputs`. In a body that was begun, the
 * node belongs to the body, and may read what is around it. */
REPRISE_API reprise_status reprise_graph_add_node(reprise_graph* graph,
                                                  const reprise_graph_node* node, int32_t* outputs,
                                                  reprise_error* error);
/** Gives sizes as a tensor of int64: a vector of them, or a scalar if `scalar` is not 0. */
REPRISE_API reprise_status reprise_graph_sizes(reprise_graph* graph, const char* const* sizes,
                                               size_t count, int32_t scalar, int32_t* value,
                                               reprise_error* error);
/** Begins the body of an If, Loop or Scan. Nodes that follow belong to it, and are checked when the
 * node with the body is added. `name` may be null. */
REPRISE_API reprise_status reprise_graph_begin_body(reprise_graph* graph, const char* name,
                                                    reprise_error* error);
/** Adds an input of the body, whose type the operator decides. `name` may be null. */
REPRISE_API reprise_status reprise_graph_body_input(reprise_graph* graph, const char* name,
                                                    int32_t* value, reprise_error* error);
/** Ends the body that was begun last, which returns these values. */
REPRISE_API reprise_status reprise_graph_end_body(reprise_graph* graph, const int32_t* outputs,
                                                  size_t output_count, int32_t* body,
                                                  reprise_error* error);
/** Writes the type of a value, such as "float32[n, 8]", truncated to `capacity` bytes with the
 * terminating zero. It is empty while the type is not known, as in bodies. */
REPRISE_API reprise_status reprise_graph_type(const reprise_graph* graph, int32_t value, char* text,
                                              size_t capacity, reprise_error* error);
/** Checks the invariants of the graph so far. */
REPRISE_API reprise_status reprise_graph_verify(const reprise_graph* graph, reprise_error* error);

/** @} */

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*) */

#endif
