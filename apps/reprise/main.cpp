// reprise: compiles ONNX models, runs and measures them, and explains what was fused.
#include "apps/reprise/command_line.h"

int main(int argc, char** argv) {
  return reprise::app::command_line(argc, argv);
}
