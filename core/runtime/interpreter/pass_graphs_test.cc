#include "core/runtime/interpreter/pass_graphs.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/philox.h"
#include "core/nn/testing/random_program.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "core/tensor/testing/host_values.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

// A random program in two halves on one device, trained by plain gradient descent with several
// micro-batches in flight. The results are the same with and without graphs.
class Trainer {
 public:
  Trainer(uint64_t seed, DType dtype, PassGraphsOptions options, bool split_backward)
      : dtype_(dtype), split_backward_(split_backward), program_(nn::RandomProgram({seed})) {
    nn::ParameterSet drawn(program_, program_.all_layers(), Device::Cpu());
    drawn.InitRandom(seed);
    std::map<std::string, Tensor> initial;
    drawn.Collect(&initial);
    parameters_ = std::make_unique<nn::ParameterSet>(program_, program_.all_layers(), device_);
    EXPECT_TRUE(parameters_->Load(initial).ok());
    device_->allocator().set_poison(true);
    if (options.enabled) graphs_ = std::make_unique<PassGraphs>(device_, options);
  }
  ~Trainer() {
    graphs_ = nullptr;
    EXPECT_TRUE(device_->Synchronize().ok());
    EXPECT_THAT(driver_.violations(), IsEmpty());
  }

  // Trains on one micro-batch per size, `in_flight` at a time.
  void Step(const std::vector<int>& sizes, size_t in_flight) {
    std::deque<MicroBatch> under_way;
    for (int size : sizes) {
      if (under_way.size() == in_flight) {
        Backward(&under_way.front());
        under_way.pop_front();
      }
      under_way.emplace_back();
      Forward(size, &under_way.back());
    }
    for (MicroBatch& each : under_way) Backward(&each);
    for (nn::ParameterId id : parameters_->trainable_ids()) {
      const Tensor master = parameters_->weight(id).master();
      device_->Accumulate(master.raw_data(), parameters_->grad(id)->raw_data(),
                          master.num_elements());
      parameters_->mutable_weight(id)->MarkUpdated();
      results_.push_back(master.Clone());
    }
    parameters_->ZeroGrads();
  }

  // Returns all results so far.
  std::vector<std::vector<float>> Results() {
    std::vector<std::vector<float>> values;
    for (const Tensor& result : results_) values.push_back(HostValues(result));
    return values;
  }
  // Exchanges the weights for copies of them.
  void MoveWeights() {
    std::map<std::string, Tensor> now;
    parameters_->Collect(&now);
    copies_ = std::make_unique<nn::ParameterSet>(program_, program_.all_layers(), device_);
    EXPECT_TRUE(copies_->Load(now).ok());
    parameters_->SwapWeights(copies_.get());
  }
  void ForgetResults() { results_.clear(); }

  cuda::FakeDriver& driver() { return driver_; }
  Device& device() { return *device_; }
  const PassGraphs& graphs() const { return *graphs_; }

 private:
  struct Half {
    nn::RangeState state;
    PassGraphs::Hold hold;
  };
  struct MicroBatch {
    int size;
    Half halves[2];
    nn::ValueMap outputs;
  };

  LayerRange LayersOf(int half) const {
    const int middle = program_.num_layers() / 2;
    return half == 0 ? LayerRange{0, middle} : LayerRange{middle, program_.num_layers()};
  }

  Tensor Draw(const Shape& shape, DType dtype) {
    RandomStream random(7, draws_++, 0, RandomPurpose::kTest);
    std::vector<float> values(shape.num_elements());
    for (float& v : values) v = 0.1f * random.NextNormal();
    return Tensor::FromHost<float>(device_, shape, values).To(dtype);
  }

  void Run(PassKind kind, int half, nn::ValueMap* values, Half* kept) {
    PassCall call;
    call.kind = kind;
    call.program = &program_;
    call.layers = LayersOf(half);
    call.parameters = parameters_.get();
    call.options.compute_dtype = dtype_;
    call.values = values;
    call.state = &kept->state;
    const absl::Status status =
        graphs_ == nullptr ? RunPass(call) : graphs_->Run(call, &kept->hold);
    ASSERT_TRUE(status.ok()) << status;
  }

  void Forward(int size, MicroBatch* micro_batch) {
    micro_batch->size = size;
    nn::ValueMap values;
    for (ValueId id : program_.inputs()) values[id] = Draw(program_.BatchShape(id, size), dtype_);
    for (int half : {0, 1}) {
      Run(PassKind::kForward, half, &values, &micro_batch->halves[half]);
      // Outputs are kept alive, as by a message in flight.
      for (const auto& [id, tensor] : values) results_.push_back(tensor);
    }
    micro_batch->outputs = std::move(values);
  }

  void Backward(MicroBatch* micro_batch) {
    nn::ValueMap grads;
    for (ValueId id : program_.outputs()) {
      if (!program_.value(id).has_gradient) continue;
      grads[id] = Draw(program_.BatchShape(id, micro_batch->size), dtype_);
    }
    for (int half : {1, 0}) {
      Half* kept = &micro_batch->halves[half];
      if (split_backward_) {
        Run(PassKind::kInputGrad, half, &grads, kept);
        Run(PassKind::kWeightGrad, half, nullptr, kept);
      } else {
        Run(PassKind::kBackward, half, &grads, kept);
      }
      EXPECT_TRUE(kept->state.finished());
      for (const auto& [id, tensor] : grads) results_.push_back(tensor);
    }
  }

  cuda::FakeDriver driver_;
  const std::shared_ptr<Device> device_ = (*cuda::CreateCudaDevices(&driver_, 1))[0];
  const DType dtype_;
  const bool split_backward_;
  const nn::Program program_;
  std::unique_ptr<nn::ParameterSet> parameters_, copies_;
  std::unique_ptr<PassGraphs> graphs_;
  std::vector<Tensor> results_;
  int draws_ = 0;
};

struct Said {
  PassGraphsOptions Options() {
    PassGraphsOptions options;
    options.enabled = true;
    options.say = [this](const std::string& line) { lines.push_back(line); };
    return options;
  }
  std::vector<std::string> lines;
};

class PassGraphsTest : public ::testing::TestWithParam<std::tuple<DType, bool>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  bool split() const { return std::get<1>(GetParam()); }
};

// Weights change from step to step; micro-batches of two sizes occur in varying numbers.
TEST_P(PassGraphsTest, TheNumbersAreThoseOfPassesThatAreNotRecorded) {
  const std::vector<std::pair<std::vector<int>, size_t>> steps = {
      {{3, 3, 3}, 2}, {{3, 3, 2}, 2},    {{3, 3, 3, 2}, 3},
      {{2, 3, 2}, 1}, {{3, 3, 3, 3}, 4}, {{3, 3, 2}, 2}};
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    Said said;
    Trainer expected(seed, dtype(), {}, split()), actual(seed, dtype(), said.Options(), split());
    for (const auto& [sizes, in_flight] : steps) {
      expected.Step(sizes, in_flight);
      actual.Step(sizes, in_flight);
    }
    EXPECT_EQ(actual.Results(), expected.Results()) << "seed " << seed;
    EXPECT_GT(actual.driver().num_launches(), 30) << "seed " << seed;
    EXPECT_THAT(said.lines, IsEmpty());
  }
}

TEST_P(PassGraphsTest, MemoryAndGraphsDoNotGrow) {
  Said said;
  Trainer trainer(2, dtype(), said.Options(), split());
  std::vector<int64_t> bytes, graphs;
  for (int step = 0; step < 8; ++step) {
    trainer.Step({3, 3, 3, 3}, 2);
    trainer.ForgetResults();
    ASSERT_TRUE(trainer.device().Synchronize().ok());
    trainer.device().allocator().ReleaseCache();
    bytes.push_back(trainer.driver().live_bytes());
    graphs.push_back(trainer.graphs().num_graphs());
    EXPECT_EQ(bytes.back() % 512, 0);
    EXPECT_EQ(trainer.device().allocator().stats().allocated_bytes, bytes.back());
  }
  // Two micro-batches in flight; two halves, each with a forward pass and one or two backward
  // passes.
  EXPECT_EQ(graphs.back(), 2 * 2 * (split() ? 3 : 2));
  for (size_t step = 3; step < bytes.size(); ++step) {
    EXPECT_EQ(bytes[step], bytes[2]) << "step " << step;
    EXPECT_EQ(graphs[step], graphs[2]) << "step " << step;
  }
}

TEST_P(PassGraphsTest, APassThatCannotBeRecordedRunsAsAlways) {
  for (const std::string call : {"BeginCapture", "EndCapture"}) {
    Said said;
    Trainer expected(3, dtype(), {}, split()), actual(3, dtype(), said.Options(), split());
    // A pass is first recorded in its third run.
    actual.driver().FailNext(call);
    for (int step = 0; step < 4; ++step) {
      expected.Step({3, 3, 3}, 2);
      actual.Step({3, 3, 3}, 2);
    }
    EXPECT_EQ(actual.Results(), expected.Results()) << call;
    EXPECT_TRUE(actual.device().Synchronize().ok());
    ASSERT_THAT(said.lines, SizeIs(1)) << call;
    EXPECT_THAT(said.lines[0], HasSubstr("runs without a graph: " + call + ": injected failure"));
    EXPECT_GT(actual.driver().num_launches(), 0);
  }
}

TEST_P(PassGraphsTest, ParametersThatMoveEndRecordedPasses) {
  Said said;
  Trainer expected(5, dtype(), {}, split()), actual(5, dtype(), said.Options(), split());
  for (int step = 0; step < 5; ++step) {
    for (Trainer* trainer : {&expected, &actual}) {
      if (step == 3) trainer->MoveWeights();
      trainer->Step({3, 3, 3}, 2);
    }
  }
  EXPECT_EQ(actual.Results(), expected.Results());
  EXPECT_THAT(said.lines, Not(IsEmpty()));
  for (const std::string& line : said.lines) EXPECT_THAT(line, HasSubstr("its parameters move"));
}

TEST_P(PassGraphsTest, KeepsAtMostMaxGraphs) {
  Said said;
  PassGraphsOptions options = said.Options();
  options.max_graphs = 3;
  Trainer expected(4, dtype(), {}, split()), actual(4, dtype(), options, split());
  for (int step = 0; step < 4; ++step) {
    expected.Step({3, 3, 2, 2}, 2);
    actual.Step({3, 3, 2, 2}, 2);
  }
  EXPECT_EQ(actual.Results(), expected.Results());
  EXPECT_EQ(actual.graphs().num_graphs(), 3);
  EXPECT_THAT(said.lines, ElementsAre("cuda:0 has 3 graphs and will record no more"));
}

INSTANTIATE_TEST_SUITE_P(Passes, PassGraphsTest,
                         ::testing::Combine(::testing::Values(DType::kF32, DType::kBf16),
                                            ::testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == DType::kF32 ? "Fp32"
                                                                                     : "Bf16") +
                                  (std::get<1>(info.param) ? "Split" : "Whole");
                         });

}  // namespace
}  // namespace dpipe
