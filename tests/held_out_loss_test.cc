// Compares the held-out loss with losses combined by hand, including layer ranges.
#include "core/train/held_out_loss.h"

#include <atomic>
#include <numeric>

#include "core/base/bytes.h"
#include "core/nn/execution.h"
#include "core/tensor/cuda/cuda_device.h"
#include "core/tensor/cuda/testing/fake_driver.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testlib/toy_model.h"

namespace dpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kSamples = 7;

// Like the toy inputs, except for the noise, which differs between quantiles.
class QuantileInputs : public InputProvider {
 public:
  QuantileInputs(const nn::Model* model, int quantile)
      : common_(model, 5, DType::kF32), own_(model, 100 + quantile, DType::kF32) {}

  absl::StatusOr<Tensor> Load(const std::string& component, const std::string& input, int64_t step,
                              SampleRange samples, const std::shared_ptr<Device>& device) override {
    return (input == "noise" ? own_ : common_).Load(component, input, step, samples, device);
  }

 private:
  testlib::ToyInputs common_, own_;
};

class HeldOutLossTest : public ::testing::TestWithParam<bool> {
 protected:
  HeldOutLossTest()
      : model_(MakeModel(GetParam())),
        parameters_(testlib::MakeToyParameters(model_, 3)),
        workers_(StartWorkers(std::vector<std::shared_ptr<Device>>(2, Device::Cpu()))) {
    for (int quantile = 0; quantile < 3; ++quantile) {
      inputs_.push_back(std::make_unique<QuantileInputs>(&model_, quantile));
    }
  }

  static nn::Model MakeModel(bool complicated) {
    testlib::ToyModelOptions options;
    options.num_blocks = 2;
    options.second_backbone = options.self_conditioning = complicated;
    return testlib::MakeToyModel(options);
  }

  HeldOutLossOptions Options(int batch) const {
    HeldOutLossOptions options;
    options.model = &model_;
    options.frozen_parameters = parameters_.frozen_pointers;
    for (const auto& inputs : inputs_) options.inputs.push_back(inputs.get());
    options.num_samples = kSamples;
    options.batch = batch;
    return options;
  }

  HeldOutLosses Evaluate(HeldOutLoss* loss, int num_workers) {
    return EvaluateBy(loss, workers_, num_workers);
  }

  HeldOutLosses EvaluateBy(HeldOutLoss* loss,
                           const std::vector<std::unique_ptr<DeviceWorker>>& with,
                           int num_workers) {
    std::vector<DeviceWorker*> workers;
    for (int i = 0; i < num_workers; ++i) workers.push_back(with[i].get());
    const auto losses = loss->Evaluate(parameters_.backbone, workers);
    EXPECT_TRUE(losses.ok()) << losses.status();
    return *losses;
  }

  // Returns one sample's loss of all backbones, running every component for this sample alone.
  double ByHand(int quantile, int sample) {
    std::map<std::string, Tensor> outputs;  // by component/output
    double loss = 0;
    for (int c = 0; c < model_.num_components(); ++c) {
      const nn::Component& component = model_.component(c);
      const nn::Program& program = component.program;
      nn::ParameterSet own(program, program.all_layers(), Device::Cpu());
      if (component.is_backbone) {
        EXPECT_TRUE(own.Load(parameters_.backbone).ok());
      }
      const nn::ParameterSet& set = component.is_backbone ? own : *parameters_.frozen_pointers[c];
      const int laps = component.self_conditioning.input.empty() ? 1 : 2;
      Tensor estimate;
      for (int lap = 0; lap < laps; ++lap) {
        nn::ValueMap values;
        for (ValueId id : program.inputs()) {
          const std::string& name = program.value(id).name;
          const auto source = component.sources.find(name);
          if (source != component.sources.end()) {
            values[id] = outputs.at(source->second.component + "/" + source->second.output);
          } else if (laps == 2 && name == component.self_conditioning.input) {
            values[id] = lap == 1
                             ? estimate
                             : Tensor::Zeros(Device::Cpu(), program.BatchShape(id, 1), DType::kF32);
          } else {
            values[id] = *inputs_[quantile]->Load(component.name, name, 0, {sample, sample + 1},
                                                  Device::Cpu());
          }
        }
        EXPECT_TRUE(nn::Forward(program, program.all_layers(), set, {}, &values, nullptr).ok());
        if (laps == 2) estimate = values[program.OutputNamed(component.self_conditioning.output)];
        if (component.is_backbone && lap == laps - 1) {
          loss += values[component.loss()].data<float>()[0];
        }
        for (int reader = c + 1; reader < model_.num_components(); ++reader) {
          for (const auto& [input, source] : model_.component(reader).sources) {
            if (source.component != component.name) continue;
            outputs[component.name + "/" + source.output] =
                values[program.OutputNamed(source.output)];
          }
        }
      }
    }
    return loss;
  }

  const nn::Model model_;
  const testlib::ToyParameters parameters_;
  std::vector<std::unique_ptr<InputProvider>> inputs_;
  std::vector<std::unique_ptr<DeviceWorker>> workers_;
};

TEST_P(HeldOutLossTest, IsStopped) {
  const auto loss = HeldOutLoss::Create(Options(/*batch=*/3));
  ASSERT_TRUE(loss.ok()) << loss.status();
  std::atomic<int> asked{0};
  const auto stopped = (*loss)->Evaluate(parameters_.backbone, {workers_[0].get()}, nullptr,
                                         [&] { return ++asked > 1; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(Evaluate(loss->get(), 1).by_quantile.size(), 3u) << "another one is not";
}

TEST_P(HeldOutLossTest, IsTheMeanOverSamplesOfEachQuantile) {
  const auto loss = HeldOutLoss::Create(Options(/*batch=*/3));
  ASSERT_TRUE(loss.ok()) << loss.status();
  const HeldOutLosses losses = Evaluate(loss->get(), 1);
  ASSERT_EQ(losses.by_quantile.size(), 3u);
  double mean = 0;
  for (int quantile = 0; quantile < 3; ++quantile) {
    double sum = 0;
    for (int sample = 0; sample < kSamples; ++sample) sum += ByHand(quantile, sample);
    EXPECT_NEAR(losses.by_quantile[quantile], sum / kSamples, 1e-5 * sum / kSamples);
    mean += losses.by_quantile[quantile] / 3;
  }
  EXPECT_DOUBLE_EQ(losses.mean, mean);
  EXPECT_NE(losses.by_quantile[0], losses.by_quantile[1]);
}

// The bits do not depend on the number of workers, or on frozen outputs cached by an earlier
// evaluation.
TEST_P(HeldOutLossTest, DoesNotDependOnWorkersOrTheCache) {
  const auto loss = HeldOutLoss::Create(Options(2));
  HeldOutLossOptions options = Options(2);
  options.cache_bytes = 0;
  const auto uncached = HeldOutLoss::Create(options);
  ASSERT_TRUE(loss.ok() && uncached.ok());
  const HeldOutLosses first = Evaluate(loss->get(), 1);
  EXPECT_EQ(Evaluate(loss->get(), 2).by_quantile, first.by_quantile);
  EXPECT_EQ(Evaluate(uncached->get(), 2).by_quantile, first.by_quantile);
}

// The host cannot touch their memory. If a GPU has no room left, the CPU computes the loss.
TEST_P(HeldOutLossTest, GpusComputeTheSame) {
  const auto loss = HeldOutLoss::Create(Options(2));
  ASSERT_TRUE(loss.ok()) << loss.status();
  cuda::FakeDriver driver;
  driver.HideMemory();
  const auto gpus = StartWorkers(*cuda::CreateVirtualCudaDevices(&driver, 2));
  const HeldOutLosses there = EvaluateBy(loss->get(), gpus, 2);
  EXPECT_THAT(gpus[0]->device()->notes(), IsEmpty());
  driver.RunAll();
  EXPECT_EQ(driver.live_bytes(), 0) << "training needs the memory";
  // With the frozen components' outputs from the GPUs.
  const HeldOutLosses cached = Evaluate(loss->get(), 2);
  driver.set_memory_limit(kGiB);
  const auto again = HeldOutLoss::Create(Options(2));
  const HeldOutLosses here = EvaluateBy(again->get(), gpus, 2);
  EXPECT_THAT(gpus[0]->device()->notes(), ElementsAre(HasSubstr("on the CPU")));
  EXPECT_EQ(here.by_quantile, Evaluate(again->get(), 1).by_quantile);
  for (int quantile = 0; quantile < 3; ++quantile) {
    const double expected = here.by_quantile[quantile];
    EXPECT_NEAR(there.by_quantile[quantile], expected, 1e-5 * expected);
    EXPECT_NEAR(cached.by_quantile[quantile], expected, 1e-5 * expected);
  }
  EXPECT_THAT(driver.violations(), IsEmpty());
}

TEST_P(HeldOutLossTest, NothingToEvaluateIsAnError) {
  HeldOutLossOptions options = Options(2);
  options.num_samples = 0;
  EXPECT_FALSE(HeldOutLoss::Create(options).ok());
}

INSTANTIATE_TEST_SUITE_P(Models, HeldOutLossTest, ::testing::Values(false, true),
                         [](const ::testing::TestParamInfo<bool>& info) {
                           return std::string(info.param ? "TwoBackbonesAndAnEstimate" : "Plain");
                         });

}  // namespace
}  // namespace dpipe
