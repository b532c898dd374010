// Files that are not what users take them for, and folders of inputs that are not complete.
#include <filesystem>
#include <string_view>

#include "tests/errors/cases.h"

namespace reprise::test {
namespace {

/// A file that is no ONNX model although its name says so.
Case other_file(const std::string& name, const std::string& contents, const std::string& message) {
  return {name, 3, "m\\.onnx.*" + message,
          [contents](Workspace& w) { return run_with(w.file("m.onnx", contents)); }};
}

/// Files that users take for a model.
std::vector<Case> file_cases() {
  using namespace std::string_literals;
  return {
      other_file("lfs_pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
                 "Git LFS pointer.*git lfs pull"),
      other_file("web_page", "\n<!DOCTYPE html>\n<html><head></head></html>", "web page"),
      other_file("pytorch", "PK\x03\x04 archive/data.pkl", "zip archive.*torch\\.onnx\\.export"),
      other_file("pickle", "\x80\x04\x95 sklearn", "pickle.*skl2onnx"),
      other_file("tflite", "\x1c\0\0\0TFL3\x14\0 "s, "TensorFlow Lite.*tf2onnx"),
      other_file("ort", "\x20\0\0\0ORTM\x14\0 "s, "ORT format.*\\.onnx"),
      other_file("safetensors", "\x40\0\0\0\0\0\0\0{\"w\":{}}"s, "safetensors.*no graph"),
      other_file("saved_model", "\x08\x01\x12\x02\x0a\x00"s, "no graph.*tf2onnx"),
      other_file("package_as_onnx", "\x89RPK\r\n\x1a\n 0123", "compiled model.*\\.rpk"),
      {"onnx_as_package", 3, "m\\.rpk.*ONNX model.*\\.onnx",
       [](Workspace& w) { return run_with(w.file("m.rpk", relu().bytes())); }},
      {"page_as_package", 3, "m\\.rpk.*web page",
       [](Workspace& w) { return run_with(w.file("m.rpk", "<html>")); }},
      {"lfs_pointer_as_input", 3, "x\\.npy.*Git LFS pointer",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()),
                         {"--input", "x=" + w.file("x.npy", "version https://git-lfs.github.com")});
       }},
      {"ml_dtypes_input", 3, "x\\.npy.*'<V2'.*bfloat16.*\\.pb",
       [](Workspace& w) {
         std::string header = "{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }\n";
         header.insert(header.size() - 1, 118 - header.size(), ' ');
         const std::string x =
             w.file("x.npy", "\x93NUMPY\x01\0"s + static_cast<char>(header.size()) + "\0"s +
                                 header + std::string(12, '\0'));
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x=" + x});
       }},
  };
}

/// A folder with the files, which are float32[2,3], and the model that reads it.
Args verify_data(Workspace& w, const OnnxWriter& model,
                 const std::vector<std::pair<std::string, std::string>>& files,
                 const Args& more = {}) {
  std::filesystem::create_directory(w.path("data"));
  for (const auto& [file, tensor] : files)
    w.file("data/" + file, onnx_tensor(float_tensor({2, 3}), tensor));
  Args args{"verify", w.file("m.onnx", model.bytes()), "--data", w.path("data")};
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

std::vector<Case> data_cases() {
  return {
      {"data_without_files", 3, "input_0\\.pb' is missing.*input 'x'.*--input x=FILE",
       [](Workspace& w) { return verify_data(w, relu(), {}); }},
      {"data_without_a_file", 3, "input_1\\.pb' is missing.*input 'b'",
       [](Workspace& w) {
         return verify_data(w, add_dynamic(), {{"input_0.pb", "a"}});
       }},
      {"data_with_a_gap", 3, "lacks input_0\\.pb, but has input_1\\.pb",
       [](Workspace& w) {
         return verify_data(w, add_dynamic(), {{"input_1.pb", "b"}});
       }},
      {"data_with_a_file_too_many", 3, "input_1\\.pb' is for no input.*remove",
       [](Workspace& w) {
         return verify_data(w, relu(), {{"input_0.pb", "x"}, {"input_1.pb", "z"}});
       }},
      {"data_with_two_files_for_one_input", 3, "input_1\\.pb' is for input 'a', as another",
       [](Workspace& w) {
         return verify_data(w, add_dynamic(), {{"input_0.pb", "a"}, {"input_1.pb", "a"}});
       }},
      {"data_without_a_file_that_input_gives", 0, "",
       [](Workspace& w) {
         const std::string b = w.file("b.pb", onnx_tensor(float_tensor({2, 3})));
         return verify_data(w, add_dynamic(), {{"input_0.pb", "a"}}, {"--input", "b=" + b});
       }},
      {"data_by_position", 0, "input_0\\.pb' holds 'other'.*input 'x' gets it by its position",
       [](Workspace& w) {
         return verify_data(w, relu(), {{"input_0.pb", "other"}});
       }},
      {"data_beside_the_model_is_empty", 0, "test_data_set_0' has no input_0\\.pb.*random",
       [](Workspace& w) {
         std::filesystem::create_directory(w.path("test_data_set_0"));
         return Args{"verify", w.file("m.onnx", relu().bytes())};
       }},
  };
}

TEST(Errors, OtherFilesAreRecognised) {
  for (const Case& c : file_cases()) check(c, "host");
}

TEST(Errors, EverythingThatIsRefusedIsListed) {
  check({"all", 3, "m\\.onnx: 2 refusals",
         [](Workspace& w) {
           OnnxWriter m;
           m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
           m.node("Frobnicate", {"x"}, {"z"}, {"frob", "", {}});
           m.node("Baz", {"z"}, {"y"}, {"baz", "", {}});
           return Args{"explain", "--all", w.file("m.onnx", m.bytes())};
         }},
        "");
}

TEST(Errors, FoldersOfInputsAreComplete) {
  for (const Case& c : data_cases()) check(c, "host");
}

}  // namespace
}  // namespace reprise::test
