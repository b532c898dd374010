// reprise: compiles ONNX models, runs and measures them, and explains what was fused.
#include <string>
#include <vector>

#include "apps/reprise/command_line.h"
#include "runtime/platform/child/environment.h"

int main(int argc, char** argv) {
  std::vector<std::string> texts = reprise::platform::utf8_arguments(argc, argv);
  std::vector<char*> arguments;
  arguments.reserve(texts.size() + 1);
  for (std::string& text : texts) arguments.push_back(text.data());
  arguments.push_back(nullptr);
  return reprise::app::command_line(static_cast<int>(texts.size()), arguments.data());
}
