// Hostile models and inputs, as a table: what is given, the exit status of the command line, and
// what its message must name. Everything goes through the program, as a user would meet it.
#include <cmath>
#include <filesystem>
#include <limits>

#include "tests/errors/cases.h"

namespace reprise::test {
namespace {

OnnxWriter gather(const std::vector<Dim>& dims) {
  OnnxWriter w;
  w.input("i", DType::I64, dims);
  w.output("y", DType::F32, {"n", 3});
  w.initializer("table", float_tensor({4, 3}));
  w.node("Gather", {"table", "i"}, {"y"}, {"lookup", "", {}});
  return w;
}

std::vector<Case> model_cases() {
  return {
      {"unknown_operator", 3, "Frobnicate.*|frob",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Frobnicate", {"x"}, {"y"}, {"frob", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"unknown_domain", 3, "com\\.example",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Relu", {"x"}, {"y"}, {"frob", "com.example", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"cyclic_graph", 3, "cycl|cycle|first|second",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Add", {"x", "b"}, {"a"}, {"first", "", {}});
         m.node("Relu", {"a"}, {"b"}, {"second", "", {}});
         m.node("Relu", {"a"}, {"y"}, {"third", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"undefined_value", 3, "nowhere",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Add", {"x", "nowhere"}, {"y"}, {"the_add", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"value_made_twice", 3, "'y'|the_second",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Relu", {"x"}, {"y"}, {"the_first", "", {}});
         m.node("Abs", {"x"}, {"y"}, {"the_second", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"missing_output", 3, "missing",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2}).output("missing", DType::F32, {2});
         m.node("Relu", {"x"}, {"y"});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"clashing_shapes", 3, "the_add",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("a", DType::F32, {2, 3}).input("b", DType::F32, {2, 4});
         m.output("y", DType::F32, {2, 3});
         m.node("Add", {"a", "b"}, {"y"}, {"the_add", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"clashing_matmul", 3, "the_matmul",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("a", DType::F32, {2, 3}).input("b", DType::F32, {4, 5});
         m.output("y", DType::F32, {2, 5});
         m.node("MatMul", {"a", "b"}, {"y"}, {"the_matmul", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"clashing_dtypes", 3, "the_add",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("a", DType::F32, {2}).input("b", DType::I64, {2});
         m.output("y", DType::F32, {2});
         m.node("Add", {"a", "b"}, {"y"}, {"the_add", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"too_few_inputs", 3, "the_add",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("a", DType::F32, {2}).output("y", DType::F32, {2});
         m.node("Add", {"a"}, {"y"}, {"the_add", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"squeeze_of_one_element_that_is_not_zero", 3,
       "node 'the_squeeze': dimension 1 of 'where' is 1.*set its axes in the model",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {4}).output("y", DType::I64, {"n"});
         m.node("NonZero", {"x"}, {"where"}, {"the_nonzero", "", {}});
         m.node("Squeeze", {"where"}, {"y"}, {"the_squeeze", "", {}});
         const HostTensor x = HostTensor::from<float>(DType::F32, {4}, {0, 0, 1, 0});
         return run_with(w.file("m.onnx", m.bytes()),
                         {"--input", "x=" + w.file("x.pb", onnx_tensor(x, "x"))});
       },
       true},
      {"truncated_model", 3, "m\\.onnx",
       [](Workspace& w) {
         const std::string bytes = relu().bytes();
         return run_with(w.file("m.onnx", bytes.substr(0, bytes.size() - 9)));
       }},
      {"junk_model", 3, "m\\.onnx",
       [](Workspace& w) { return run_with(w.file("m.onnx", std::string(4096, '\xff'))); }},
      {"empty_model", 3, "m\\.onnx", [](Workspace& w) { return run_with(w.file("m.onnx", "")); }},
      {"absurd_initializer", 3, "huge",
       [](Workspace& w) {
         OnnxWriter m;
         m.output("y", DType::F32, {1});
         m.raw_initializer("huge", DType::F32, {int64_t{1} << 40, int64_t{1} << 40}, "abcd");
         m.node("Relu", {"huge"}, {"y"});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"negative_initializer", 3, "negative",
       [](Workspace& w) {
         OnnxWriter m;
         m.output("y", DType::F32, {1});
         m.raw_initializer("negative", DType::F32, {-4}, std::string(16, '\0'));
         m.node("Relu", {"negative"}, {"y"});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"short_initializer", 3, "short_one",
       [](Workspace& w) {
         OnnxWriter m;
         m.output("y", DType::F32, {100});
         m.raw_initializer("short_one", DType::F32, {100}, std::string(16, '\0'));
         m.node("Relu", {"short_one"}, {"y"});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"absurd_intermediate", 3, "grow|expand|y",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {1, 1}).output("y", DType::F32, {"p", "q"});
         m.initializer("shape", int64_tensor({2}, {int64_t{1} << 30, int64_t{1} << 30}));
         m.node("Expand", {"x", "shape"}, {"y"}, {"grow", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"absurd_countable_intermediate", 3, "grow",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {1, 1}).output("y", DType::F32, {1, 1});
         m.initializer("shape", int64_tensor({2}, {int64_t{1} << 19, int64_t{1} << 18}));
         m.node("Expand", {"x", "shape"}, {"big"}, {"grow", "", {}});
         m.node("ReduceMax", {"big"}, {"y"}, {"shrink", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"old_opset", 3, "the_det.*opset 10 is older than the oldest supported",
       [](Workspace& w) {
         OnnxWriter m(10);
         m.input("x", DType::F32, {2, 2}).output("y", DType::F32, {});
         m.node("Det", {"x"}, {"y"}, {"the_det", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
      {"no_such_model", 4, "absent\\.onnx",
       [](Workspace& w) { return run_with(w.path("absent.onnx")); }},
      {"junk_package", 3, "p\\.rpk",
       [](Workspace& w) { return run_with(w.file("p.rpk", std::string(4096, 'j'))); }},
      {"empty_package", 3, "p\\.rpk", [](Workspace& w) { return run_with(w.file("p.rpk", "")); }},
      {"pass_off_in_package", 3, "p\\.rpk",
       [](Workspace& w) {
         return run_with(w.file("p.rpk", std::string(64, '\0')), {"--disable-pass", "fusion"});
       }},
  };
}

std::string f32_file(Workspace& w, const std::string& name, const std::vector<int64_t>& dims) {
  return w.file(name, onnx_tensor(float_tensor(dims)));
}

std::vector<Case> input_cases() {
  return {
      {"wrong_shape", 3, "'x'.*dimension 1 is 4, expected 3",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()),
                         {"--input", "x=" + f32_file(w, "x.pb", {2, 4})});
       },
       true},
      {"wrong_rank", 3, "'?x'?",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()),
                         {"--input", "x=" + f32_file(w, "x.pb", {6})});
       },
       true},
      {"wrong_dtype", 3, "x.*float32",
       [](Workspace& w) {
         const std::string x =
             w.file("x.pb", onnx_tensor(int64_tensor({2, 3}, {1, 2, 3, 4, 5, 6})));
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x=" + x});
       },
       true},
      {"wrong_name", 3, "'z'.*x",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()),
                         {"--input", "z=" + f32_file(w, "x.pb", {2, 3})});
       },
       true},
      {"clashing_symbols", 3, "'?n'?|'?b'?",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", add_dynamic().bytes()),
                         {"--input", "a=" + f32_file(w, "a.pb", {2, 3}), "--input",
                          "b=" + f32_file(w, "b.pb", {4, 3})});
       },
       true},
      {"missing_input_file", 4, "gone\\.npy",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x=" + w.path("gone.npy")});
       }},
      {"truncated_input", 3, "x\\.npy",
       [](Workspace& w) {
         const std::string x = w.file("x.npy", std::string("\x93NUMPY\x01\x00\x76\x00{", 11));
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x=" + x});
       }},
      {"junk_tensor_file", 3, "x\\.pb",
       [](Workspace& w) {
         const std::string x = w.file("x.pb", std::string(100, '\xff'));
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x=" + x});
       }},
      {"absurd_shape_option", 2, "the shape a=.*a dim has at most",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", add_dynamic().bytes()), {"--shape", "a=1000000000000x3"});
       },
       true},
      {"index_out_of_range", 3, "lookup.*index 4 ",
       [](Workspace& w) {
         const std::string i = w.file("i.pb", onnx_tensor(int64_tensor({2}, {1, 4})));
         return run_with(w.file("m.onnx", gather({"n"}).bytes()), {"--input", "i=" + i});
       },
       true},
      {"index_below_range", 3, "lookup",
       [](Workspace& w) {
         const std::string i = w.file("i.pb", onnx_tensor(int64_tensor({2}, {1, -5})));
         return run_with(w.file("m.onnx", gather({"n"}).bytes()), {"--input", "i=" + i});
       },
       true},
      {"index_beyond_int32", 3, "lookup",
       [](Workspace& w) {
         const std::string i =
             w.file("i.pb", onnx_tensor(int64_tensor({2}, {1, (int64_t{1} << 32) + 1})));
         return run_with(w.file("m.onnx", gather({"n"}).bytes()), {"--input", "i=" + i});
       },
       true},
      {"label_out_of_range", 3, "loss",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {2, 4}).input("t", DType::I64, {2}).output("y", DType::F32, {});
         m.node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y"}, {"loss", "", {}});
         const std::string t = w.file("t.pb", onnx_tensor(int64_tensor({2}, {3, -1})));
         return run_with(w.file("m.onnx", m.bytes()), {"--input", "t=" + t});
       },
       true},
      {"length_out_of_range", 3, "turn",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("x", DType::F32, {4, 2}).input("l", DType::I64, {2});
         m.output("y", DType::F32, {4, 2});
         m.node("ReverseSequence", {"x", "l"}, {"y"}, {"turn", "", {}});
         const std::string l = w.file("l.pb", onnx_tensor(int64_tensor({2}, {4, 5})));
         return run_with(w.file("m.onnx", m.bytes()), {"--input", "l=" + l});
       },
       true},
      {"random_index_out_of_range", 3,
       "lookup.*input 'i' was not given, so its values are random.*--input i=FILE",
       [](Workspace& w) {
         OnnxWriter m;
         m.input("i", DType::I64, {64}).output("y", DType::F32, {64, 3});
         m.initializer("table", float_tensor({1, 3}));
         m.node("Gather", {"table", "i"}, {"y"}, {"lookup", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       },
       true},
      {"bad_index_in_constant", 3, "lookup",
       [](Workspace& w) {
         OnnxWriter m;
         m.output("y", DType::F32, {1, 3});
         m.initializer("table", float_tensor({4, 3}));
         m.initializer("i", int64_tensor({1}, {9}));
         m.node("Gather", {"table", "i"}, {"y"}, {"lookup", "", {}});
         return run_with(w.file("m.onnx", m.bytes()));
       }},
  };
}

std::vector<Case> usage_cases() {
  const auto plain = [](Args args) { return [args](Workspace&) { return args; }; };
  return {
      {"no_command", 2, "--help", plain({})},
      {"unknown_command", 2, "unknown command 'frobnicate'\nTry: reprise --help",
       plain({"frobnicate"})},
      {"unknown_option", 2, "unknown option '--frob'\nTry: reprise run --help",
       plain({"run", "m.onnx", "--frob"})},
      {"unknown_option_and_no_model", 2, "unknown option '--frob'", plain({"bench", "--frob"})},
      {"too_many_models", 2, "unknown argument 'b.onnx'", plain({"run", "a.onnx", "b.onnx"})},
      {"no_model", 2, "MODEL is required\nTry: reprise run --help", plain({"run"})},
      {"no_target", 2, "--targets", plain({"compile", "m.onnx", "-o", "m.rpk", "--targets", ""})},
      {"no_time", 2, "--timeout", plain({"conformance", ".", "--timeout", "0"})},
      {"a_folder", 4, "not a regular file", plain({"run", "/"})},
      {"a_case_folder", 4, "name the model\\.onnx in it",
       [](Workspace& w) {
         const std::string model = w.file("model.onnx", relu().bytes());
         return Args{"bench", std::filesystem::path(model).parent_path().string()};
       }},
      {"bad_mode", 2, "mode", plain({"run", "m.onnx", "--mode", "fastest"})},
      {"unknown_device", 2, "toaster",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--device", "toaster"});
       }},
      {"no_such_device", 2, "vulkan:99",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--device", "vulkan:99"});
       }},
      {"cuda_says_why", 4, "CUDA|cuda",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--device", "cuda"});
       }},
      {"unknown_pass", 2, "no_such_pass",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--disable-pass", "no_such_pass"});
       }},
      {"negative_tolerance", 2, "--tolerance: .*at least 0, found '-1'",
       plain({"verify", "m.onnx", "--tolerance", "-1"})},
      {"infinite_tolerance", 2, "--tolerance: .*found 'inf'",
       plain({"verify", "m.onnx", "--tolerance", "inf"})},
      {"nan_tolerance", 2, "--tolerance: .*found 'nan'",
       plain({"verify", "m.onnx", "--tolerance", "nan"})},
      {"nan_seconds", 2, "--max-seconds: .*found 'nan'",
       plain({"bench", "m.onnx", "--max-seconds", "nan"})},
      {"tuning_time_without_tuning", 2, "--tune-seconds: only --mode max-autotune",
       plain({"bench", "m.onnx", "--tune-seconds", "5"})},
      {"negative_seed", 2, "--seed: .*whole number.*found '-1'",
       plain({"run", "m.onnx", "--seed", "-1"})},
      {"an_input_twice", 2, "--input gives 'x' twice",
       [](Workspace& w) {
         const std::string x = "x=" + w.file("x.pb", onnx_tensor(float_tensor({2, 3})));
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", x, "--input", x});
       }},
      {"a_shape_twice", 2, "the dims of 'a' are given twice",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", add_dynamic().bytes()),
                         {"--shape", "a=1x3", "--shape", "a=2x3"});
       }},
      {"session_option_of_compile", 2, "unknown option '--warm-up'",
       plain({"compile", "m.onnx", "-o", "m.rpk", "--warm-up"})},
      {"session_option_of_explain", 2, "unknown option '--check-kernels'",
       plain({"explain", "m.onnx", "--check-kernels"})},
      {"bad_shape", 2, "1xtwo",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--shape", "x=1xtwo"});
       }},
      {"input_without_file", 2, "NAME=",
       [](Workspace& w) {
         return run_with(w.file("m.onnx", relu().bytes()), {"--input", "x"});
       }},
      {"compile_package", 2, "p\\.rpk",
       [](Workspace& w) {
         return Args{"compile", w.file("p.rpk", "x"), "-o", w.path("q.rpk")};
       }},
      {"unknown_target", 2, "toaster",
       [](Workspace& w) {
         return Args{"compile",   w.file("m.onnx", relu().bytes()),
                     "-o",        w.path("m.rpk"),
                     "--targets", "toaster"};
       }},
      {"unwritable_package", 4, "nowhere",
       [](Workspace& w) {
         return Args{"compile", w.file("m.onnx", relu().bytes()), "-o",
                     w.path("nowhere/below/m.rpk")};
       }},
      {"conformance_without_cases", 2, "model\\.onnx",
       [](Workspace& w) {
         w.file("stray", "");
         return Args{"conformance", w.path("."), "--device", "host"};
       }},
      {"conformance_without_folder", 4, "absent",
       [](Workspace& w) {
         return Args{"conformance", w.path("absent"), "--device", "host"};
       }},
  };
}

std::vector<std::string> devices() {
  std::vector<std::string> out{"host"};
  const ProcessResult r = run_process({program("reprise"), "devices"});
  static const std::regex id("(^|\n)(vulkan:[0-9]+) ");
  for (auto it = std::sregex_iterator(r.out.begin(), r.out.end(), id); it != std::sregex_iterator();
       ++it) {
    out.push_back((*it)[2]);
  }
  return out;
}

TEST(Errors, ModelsNameWhatIsWrong) {
  for (const Case& c : model_cases()) check(c, "host");
}

TEST(Errors, ModelsNameWhatIsWrongOnADevice) {
  for (const Case& c : model_cases()) {
    // Devices reduce what no kernel stores in steps.
    if (c.name != std::string("absurd_countable_intermediate")) check(c, "vulkan");
  }
}

TEST(Errors, InputsNameWhatIsWrong) {
  const std::vector<std::string> all = devices();
  ASSERT_GE(all.size(), 2u) << "no Vulkan device";
  for (const Case& c : input_cases()) {
    for (const std::string& device : all) {
      if (c.per_device || device == "host") check(c, device);
    }
  }
}

TEST(Errors, UsageTeaches) {
  for (const Case& c : usage_cases()) check(c, "");
}

/// Runs a model on every device and returns 0.npy of each.
void run_everywhere(
    const OnnxWriter& model, const std::vector<std::pair<std::string, HostTensor>>& inputs,
    const std::function<void(const std::string& npy, const std::string& device)>& check_output) {
  for (const std::string& device : devices()) {
    SCOPED_TRACE(device);
    Workspace w;
    Args argv{program("reprise"),
              "run",
              w.file("m.onnx", model.bytes()),
              "--output-dir",
              w.path("out"),
              "--device",
              device,
              "--validation"};
    for (const auto& [name, tensor] : inputs) {
      argv.insert(argv.end(), {"--input", name + "=" + w.file(name + ".pb", onnx_tensor(tensor))});
    }
    const ProcessResult r = run_process(argv);
    ASSERT_EQ(r.status, 0) << r.err;
    check_output(read_file(w.path("out/0.npy")), device);
  }
}

std::vector<float> floats_of(const std::string& npy) {
  if (npy.size() < 128) return {};
  std::vector<float> v((npy.size() - 128) / 4);
  std::memcpy(v.data(), npy.data() + 128, v.size() * 4);
  return v;
}

TEST(Errors, NanGoesThrough) {
  OnnxWriter m;
  m.input("x", DType::F32, {4}).output("y", DType::F32, {4});
  m.node("Relu", {"x"}, {"t"}).node("Add", {"t", "t"}, {"y"});
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const HostTensor x = HostTensor::from(DType::F32, {4}, std::vector<float>{nan, inf, -inf, 2.0f});
  run_everywhere(m, {{"x", x}}, [&](const std::string& npy, const std::string&) {
    const std::vector<float> y = floats_of(npy);
    ASSERT_EQ(y.size(), 4u);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], inf);
    EXPECT_EQ(y[2], 0.0f);
    EXPECT_EQ(y[3], 4.0f);
  });
}

TEST(Errors, ZeroSizedBatchIsAnEmptyResult) {
  OnnxWriter m;
  m.input("x", DType::F32, {"n", 3}).output("y", DType::F32, {"n", 5});
  m.initializer("w", float_tensor({3, 5}));
  m.node("MatMul", {"x", "w"}, {"t"}).node("Relu", {"t"}, {"y"});
  run_everywhere(m, {{"x", HostTensor(DType::F32, {0, 3})}},
                 [](const std::string& npy, const std::string&) {
                   EXPECT_EQ(npy.size(), 128u);
                   EXPECT_NE(npy.find("(0, 5)"), std::string::npos) << npy.substr(0, 100);
                 });
}

TEST(Errors, GatherTakesNegativeAndLastIndices) {
  run_everywhere(gather({"n"}), {{"i", int64_tensor({3}, {-4, 3, -1})}},
                 [](const std::string& npy, const std::string&) {
                   const std::vector<float> y = floats_of(npy);
                   const HostTensor table = float_tensor({4, 3});
                   ASSERT_EQ(y.size(), 9u);
                   for (size_t k = 0; k < 3; ++k) {
                     EXPECT_EQ(y[k], table.data<float>()[k]);
                     EXPECT_EQ(y[3 + k], table.data<float>()[9 + k]);
                     EXPECT_EQ(y[6 + k], table.data<float>()[9 + k]);
                   }
                 });
}

/// Where kernels compute int64 in 32 bits, the error names the node and its int64 tensors.
TEST(Errors, IntegersBeyond32BitsNameTheirTensors) {
  OnnxWriter m;
  m.input("count", DType::I64, {2}).output("total", DType::I64, {2});
  m.node("Mul", {"count", "count"}, {"total"}, {"the_mul", "", {}});
  Workspace w;
  const std::string package = w.path("m.rpk");
  const ProcessResult made =
      run_process({program("reprise"), "compile", w.file("m.onnx", m.bytes()), "-o", package,
                   "--targets", "vulkan-cpu"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string count = w.file("count.pb", onnx_tensor(int64_tensor({2}, {1, 100000})));
  const ProcessResult r = run_process(
      {program("reprise"), "run", package, "--device", "vulkan", "--input", "count=" + count});
  EXPECT_NE(r.status, 0);
  EXPECT_TRUE(std::regex_search(
      r.err, std::regex("the_mul.*does not fit the 32 bits.*'count'.*'total'.*host device")))
      << r.err;
}

/// Every truncation and many single-byte changes of a package: an error or the right answer.
TEST(Errors, AlteredPackagesNeverCrash) {
  Workspace w;
  const std::string model = w.file("m.onnx", gather({"n"}).bytes());
  const std::string good = w.path("good.rpk");
  const ProcessResult made = run_process({program("reprise"), "compile", model, "-o", good});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string bytes = read_file(good);
  ASSERT_GT(bytes.size(), 100u);
  const auto run = [&](const std::string& altered, const std::string& what) {
    const ProcessResult r =
        run_process({program("reprise"), "run", w.file("bad.rpk", altered), "--device", "host"});
    EXPECT_TRUE(r.status == 0 || r.status == 3) << what << ": " << r.status << " " << r.err;
    return r;
  };
  for (size_t i = 1; i <= 12; ++i) {
    const size_t size = bytes.size() * i / 13;
    const ProcessResult r = run(bytes.substr(0, size), "truncated to " + std::to_string(size));
    EXPECT_EQ(r.status, 3) << "truncated to " << size;
    EXPECT_NE(r.err.find("bad.rpk"), std::string::npos) << r.err;
  }
  for (size_t i = 0; i < 40; ++i) {
    std::string altered = bytes;
    const size_t at = i < 20 ? i * 8 : (i * 7919) % bytes.size();
    altered[at] = static_cast<char>(altered[at] ^ 0x41);
    run(altered, "byte " + std::to_string(at));
  }
}

}  // namespace
}  // namespace reprise::test
