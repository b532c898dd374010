// Runs graphs node by node: on the host kernels, or through the operators' element() definitions
// and scalar rows on the kernel interpreter.
#pragma once

#include <string>
#include <vector>

#include "codegen/graph/graph.h"

namespace reprise::test {

/// parse(), with the message as a test failure's text.
std::unique_ptr<graph::Graph> must_parse(const std::string& text);

/// Rewrites every node that has a decomposition, until none changes.
Status decompose_all(graph::Graph& g);

enum class Engine { Host, Elements };

/// Outputs for these inputs. With Engine::Elements every core node runs on the interpreter, the
/// others on the host; `on_interpreter` counts the former.
Result<std::vector<HostTensor>> run_graph(const graph::Graph& g,
                                          const std::vector<HostTensor>& inputs, Engine engine,
                                          int* on_interpreter = nullptr);

/// Values of a tensor of any numeric dtype, as double.
std::vector<double> numbers(const HostTensor& t);

}  // namespace reprise::test
