/* Builds a graph in C, compiles it and runs it on the host: prints a type, the node of an error, and
 * a sum that a state has after three runs. */
#include <reprise/compiler.h>
#include <stdio.h>
#include <string.h>

static reprise_error error;

static int32_t add(reprise_graph* graph, const char* op, const char* name, int32_t a, int32_t b,
                   const reprise_graph_attribute* attribute) {
  int32_t inputs[2], out = REPRISE_GRAPH_NONE;
  reprise_graph_node node = REPRISE_GRAPH_NODE_INIT;
  inputs[0] = a;
  inputs[1] = b;
  node.op = op;
  node.name = name;
  node.inputs = inputs;
  node.input_count = b == REPRISE_GRAPH_NONE ? 1 : 2;
  node.attributes = attribute;
  node.attribute_count = attribute ? 1 : 0;
  reprise_graph_add_node(graph, &node, &out, &error);
  return out;
}

/* total' = total + sum of each row of x, where x is [n, 6] and is read as [2n, 3]. */
static int build(reprise_graph* graph) {
  static const char* dims[] = {"n", "6"};
  static const char* shape[] = {"2*n", "3"};
  static int64_t zero = 0;
  float first[3] = {0, 0, 0};
  char type[64];
  int32_t x, total, rows, axes, sum, next, none;
  reprise_tensor t = REPRISE_TENSOR_INIT;
  reprise_graph_attribute keep = REPRISE_GRAPH_ATTRIBUTE_INIT;
  if (reprise_graph_symbol(graph, "n", 1, 8, 1, &error) != REPRISE_OK ||
      reprise_graph_input(graph, "x", REPRISE_F32, dims, 2, &x, &error) != REPRISE_OK)
    return 1;
  t.name = "total";
  t.rank = 1;
  t.dims[0] = 3;
  t.data = first;
  t.bytes = sizeof(first);
  if (reprise_graph_state(graph, &t, &total, &error) != REPRISE_OK ||
      reprise_graph_sizes(graph, shape, 2, 0, &rows, &error) != REPRISE_OK)
    return 1;
  rows = add(graph, "Reshape", "rows", x, rows, NULL);
  if (rows < 0 || reprise_graph_type(graph, rows, type, sizeof(type), &error) != REPRISE_OK) return 1;
  printf("%s ", type);
  none = add(graph, "Relu", "broken", x, x, NULL); /* it takes one operand */
  if (none != REPRISE_GRAPH_NONE || !reprise_error_node(&error, 0) || reprise_error_node(&error, 1))
    return 1;
  printf("%s ", reprise_error_node(&error, 0));
  t.name = "axes";
  t.dtype = REPRISE_I64;
  t.dims[0] = 1;
  t.data = &zero;
  t.bytes = sizeof(zero);
  if (reprise_graph_constant(graph, &t, 1, &axes, &error) != REPRISE_OK) return 1;
  keep.name = "keepdims";
  keep.kind = REPRISE_ATTRIBUTE_INT;
  keep.ints = &zero;
  sum = add(graph, "ReduceSum", "sum", rows, axes, &keep);
  next = add(graph, "Add", "next", total, sum, NULL);
  return sum < 0 || next < 0 ||
         reprise_graph_next_state(graph, total, next, "total.next", &error) != REPRISE_OK ||
         reprise_graph_output(graph, "sum", sum, &error) != REPRISE_OK ||
         reprise_graph_verify(graph, &error) != REPRISE_OK;
}

static int run(reprise_package* package) {
  static float x[12] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 2, 0};
  float total[3];
  int i, failed;
  reprise_device* device = NULL;
  reprise_session* session = NULL;
  reprise_results* results = NULL;
  reprise_tensor t = REPRISE_TENSOR_INIT;
  t.name = "x";
  t.rank = 2;
  t.dims[0] = 2;
  t.dims[1] = 6;
  t.data = x;
  t.bytes = sizeof(x);
  failed = reprise_device_open("host", NULL, &device, &error) != REPRISE_OK ||
           reprise_session_create(package, device, NULL, &session, &error) != REPRISE_OK;
  for (i = 0; !failed && i < 3; ++i) {
    failed =
        reprise_session_run(session, &t, 1, NULL, 0, &results, NULL, &error) != REPRISE_OK;
    reprise_results_free(results);
    results = NULL;
  }
  failed = failed || reprise_session_read_state(session, "total", total, sizeof(total), &error) !=
                         REPRISE_OK;
  if (!failed) printf("%g %g %g\n", (double)total[0], (double)total[1], (double)total[2]);
  reprise_session_free(session);
  reprise_device_free(device);
  return failed;
}

int main(void) {
  reprise_graph* graph = NULL;
  reprise_package* package = NULL;
  int failed = reprise_graph_create(NULL, &graph, &error) != REPRISE_OK || build(graph) ||
               reprise_compile_graph(graph, NULL, &package, &error) != REPRISE_OK || run(package);
  if (failed) fprintf(stderr, "%s\n", error.message);
  reprise_package_free(package);
  reprise_graph_free(graph);
  return failed;
}
