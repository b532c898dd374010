// reprise-finetune as users run it: its losses and states are those of a session.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "codegen/compile/compiler.h"
#include "runtime/session/session.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"
#include "tests/support/tensors.h"

namespace reprise {
namespace {

/// A step of gradient descent of y = x * w with batches of two rows.
constexpr const char* kStep = R"(graph step
input w: float32[3,1]
input x: float32[2,3]
input target: float32[2,1]
input lr: float32[]
y: float32[2,1] = MatMul(x, w) @13
d: float32[2,1] = Sub(y, target) @14
square: float32[2,1] = Mul(d, d) @14
loss: float32[] = ReduceMean<keepdims=0>(square) @13
xt: float32[3,2] = Transpose<perm=[1, 0]>(x) @13
dw: float32[3,1] = MatMul(xt, d) @13
scaled: float32[3,1] = Mul(lr, dw) @14
w_next: float32[3,1] = Sub(w, scaled) @14
output loss
output w_next
)";

package::Package step_package() {
  auto g = graph::parse(kStep);
  EXPECT_TRUE(g.ok()) << g.status().message();
  CompileOptions options;
  options.states = {
      {"w", "w_next", HostTensor::from<float>(DType::F32, {3, 1}, {0.5F, -1.0F, 0.25F})}};
  auto p = compile(*std::move(g), options);
  EXPECT_TRUE(p.ok()) << p.status().message();
  return *std::move(p);
}

std::string npy(const std::string& descr, const std::string& shape, const void* data,
                size_t bytes) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.resize(117, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00\x76\x00", 10);
  return out + header + std::string(static_cast<const char*>(data), bytes);
}

std::string npy(const std::string& shape, const std::vector<float>& v) {
  return npy("<f4", shape, v.data(), v.size() * sizeof(float));
}

class Finetune : public testing::Test {
 protected:
  void SetUp() override {
    package_ = std::make_shared<const package::Package>(step_package());
    ASSERT_TRUE(package::write(*package_, path("train.rpk")).ok());
    // Five rows, so that the third batch begins with the last row and goes on with the first.
    for (int i = 0; i < 15; ++i) x_.push_back(0.1F * static_cast<float>(i % 7) - 0.2F);
    for (int i = 0; i < 5; ++i) t_.push_back(0.3F * static_cast<float>(i) - 0.5F);
    test::write_file(path("x.npy"), npy("5, 3", x_));
    test::write_file(path("t.npy"), npy("5, 1", t_));
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  test::ProcessResult run(std::vector<std::string> options,
                          const std::string& package = "train.rpk", const std::string& x = "x.npy",
                          const std::string& t = "t.npy") {
    std::vector<std::string> args = {test::program("reprise-finetune").string(), path(package),
                                     path(x), path(t)};
    args.insert(args.end(), options.begin(), options.end());
    return test::run_process(args);
  }

  /// The losses of a session's steps, and the weights after them.
  std::pair<std::vector<float>, std::vector<float>> reference(int steps) {
    auto session = Session::create(package_, nullptr, {});
    EXPECT_TRUE(session.ok()) << session.status().message();
    std::vector<float> losses;
    for (int s = 0; s < steps; ++s) {
      HostTensor x(DType::F32, {2, 3}), t(DType::F32, {2, 1});
      for (size_t r = 0; r < 2; ++r) {
        const size_t row = (static_cast<size_t>(s) * 2 + r) % 5;
        std::memcpy(x.mutable_data<float>() + r * 3, &x_[row * 3], 3 * sizeof(float));
        t.mutable_data<float>()[r] = t_[row];
      }
      const HostTensor lr = HostTensor::from<float>(DType::F32, {}, {0.5F});
      auto results = (*session)->run(std::vector<Binding>{
          {.name = "x", .host = &x}, {.name = "target", .host = &t}, {.name = "lr", .host = &lr}});
      EXPECT_TRUE(results.ok()) << results.status().message();
      losses.push_back((*results)[0].data<float>()[0]);
    }
    auto w = (*session)->read_state("w");
    EXPECT_TRUE(w.ok()) << w.status().message();
    return {losses, {w->data<float>(), w->data<float>() + 3}};
  }

  static std::string line(int step, float loss) {
    char text[64];
    std::snprintf(text, sizeof text, "step %d loss %.6f\n", step, static_cast<double>(loss));
    return text;
  }

  test::TempDir folder_;
  std::shared_ptr<const package::Package> package_;
  std::vector<float> x_, t_;
};

TEST_F(Finetune, TrainsAsASessionDoes) {
  const auto [losses, weights] = reference(12);
  EXPECT_LT(losses[11], losses[0]);
  const auto r = run({"--steps", "12", "--lr", "0.5", "--device", "host", "--save", path("s.rpk")});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "1 states on host\n" + line(0, losses[0]) + line(10, losses[10]) +
                       line(11, losses[11]) + path("s.rpk") + ": the states\n");
  auto session = Session::create(package_, nullptr, {});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE((*session)->load_states(path("s.rpk")).ok());
  const auto w = (*session)->read_state("w");
  ASSERT_TRUE(w.ok());
  EXPECT_EQ(std::vector<float>(w->data<float>(), w->data<float>() + 3), weights);
}

TEST_F(Finetune, PlotsLosses) {
  const auto r = run({"--steps", "12", "--lr", "0.5", "--device", "host", "--plot", path("p.svg")});
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_TRUE(r.out.ends_with(path("p.svg") + ": the losses\n")) << r.out;
  const std::string svg = test::read_file(path("p.svg"));
  for (const std::string curve : {"<path class=\"step\" d=\"M", "<path class=\"mean\" d=\"M"}) {
    const size_t begin = svg.find(curve);
    ASSERT_NE(begin, std::string::npos) << svg;
    const std::string points = svg.substr(begin, svg.find("/>", begin) - begin);
    EXPECT_EQ(std::ranges::count(points, 'L'), 11) << points;
  }
  EXPECT_TRUE(svg.ends_with("</svg>\n"));
  const auto bad = run({"--steps", "1", "--device", "host", "--plot", path("no/p.svg")});
  EXPECT_EQ(bad.status, 4);
  EXPECT_NE(bad.err.find("cannot be written"), std::string::npos) << bad.err;
}

TEST_F(Finetune, GoesOnWhereItEnded) {
  const std::vector<std::string> five = {"--steps",  "5",    "--lr",   "0.5",
                                         "--device", "host", "--save", path("s.rpk")};
  ASSERT_EQ(run(five).status, 0);
  auto again = five;
  again.insert(again.end(), {"--load", path("s.rpk")});
  const auto r = run(again);
  ASSERT_EQ(r.status, 0) << r.err;
  // Five steps of two rows end at the end of the five rows.
  const auto [losses, weights] = reference(10);
  EXPECT_NE(r.out.find(line(0, losses[5])), std::string::npos) << r.out;
  EXPECT_NE(r.out.find(line(4, losses[9])), std::string::npos) << r.out;
}

TEST_F(Finetune, SaysWhatIsWrong) {
  const std::vector<int64_t> classes(5, 1);
  test::write_file(path("classes.npy"), npy("<i8", "5,", classes.data(), 5 * sizeof(int64_t)));
  test::write_file(path("wide.npy"), npy("3, 5", x_));
  test::write_file(path("none.npy"), npy("0, 3", {}));
  test::write_file(path("short.npy"), npy("6, 3", x_));
  test::write_file(path("flat.npy"), npy("", {1.0F}));
  test::write_file(path("huge.npy"), npy("4611686018427387904, 4611686018427387904", x_));
  test::write_file(path("text.npy"), "0.1, 0.2");
  test::write_file(path("double.npy"), npy("<f8", "5, 3", x_.data(), 60));
  const std::vector<std::pair<std::string, std::string>> files = {
      {"classes.npy", "is int64[5], but the input 'x' takes batches of float32[2, 3]"},
      {"wide.npy", "is float32[3, 5]"},
      {"none.npy", "no example is too few"},
      {"short.npy", "another number of bytes than its shape needs"},
      {"flat.npy", "a shape that is not supported"},
      {"huge.npy", "a shape that is not supported"},
      {"text.npy", "no .npy file"},
      {"double.npy", "use float32 or int64"},
      {"missing.npy", "cannot be opened"},
  };
  for (const auto& [file, message] : files) {
    const auto r = run({"--device", "host"}, "train.rpk", file);
    EXPECT_EQ(r.status, 3) << file;
    EXPECT_NE(r.err.find(message), std::string::npos) << file << ": " << r.err;
  }
  EXPECT_EQ(run({"--device", "host"}, "x.npy").status, 3);
  EXPECT_EQ(run({"--device", "host", "--load", path("x.npy")}).status, 3);
  for (const std::vector<std::string>& bad :
       std::vector<std::vector<std::string>>{{"--steps", "0"},
                                             {"--steps", "many"},
                                             {"--lr", "-1"},
                                             {"--lr", "nan"},
                                             {"--speed", "9"}})
    EXPECT_EQ(run(bad).status, 2) << bad[1];
}

}  // namespace
}  // namespace reprise
