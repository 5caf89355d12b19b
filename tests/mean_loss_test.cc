// Checks that the runtime computes the gradient of the mean loss over the global batch, however the
// batch is divided. Compares the toy model, Stable Diffusion and a cascade with the model's own
// passes of the whole batch. (The other equivalence tests compare plans with each other, and could
// not detect a common factor.)
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "data/scenes/generator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/trainable/training_setup.h"
#include "tests/testlib/gradients.h"
#include "tests/testlib/toy_model.h"
#include "tests/testlib/training.h"
#include "tests/testlib/whole_batch.h"

namespace dpipe {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int kGlobalBatch = 4;

double NormOf(const Tensor& tensor) {
  double sum = 0;
  for (float x : tensor.span<float>()) sum += static_cast<double>(x) * x;
  return std::sqrt(sum);
}

double NormOfDifference(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double difference = static_cast<double>(a.data<float>()[i]) - b.data<float>()[i];
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

// The results differ only by the order in which samples are added. Gradients that would be zero
// without rounding, such as those of an attention's key biases, are as small as the rounding
// errors.
void ExpectSame(const testlib::StepGradients& expected, const testlib::StepGradients& actual,
                const std::string& strategy) {
  ASSERT_EQ(actual.sample_losses.size(), expected.sample_losses.size()) << strategy;
  for (size_t i = 0; i < expected.sample_losses.size(); ++i) {
    EXPECT_THAT(actual.sample_losses[i], Pointwise(FloatNear(1e-5), expected.sample_losses[i]))
        << strategy;
  }
  ASSERT_EQ(actual.gradients.size(), expected.gradients.size()) << strategy;
  double whole = 0;
  for (const auto& [name, gradient] : expected.gradients) {
    whole = std::hypot(whole, NormOf(gradient));
  }
  for (const auto& [name, gradient] : expected.gradients) {
    EXPECT_LT(NormOfDifference(gradient, actual.gradients.at(name)),
              1e-4 * NormOf(gradient) + 1e-6 * whole)
        << strategy << ": " << name;
  }
}

// For 1F1B and data parallelism on two devices, in micro-batches of one sample.
void ExpectGradientsOfMeanLoss(TrainingJob job) {
  const auto expected = testlib::WholeBatchGradients(job, kGlobalBatch);
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto workers = StartWorkers(std::vector<std::shared_ptr<Device>>(2, Device::Cpu()));
  job.workers.clear();
  for (const auto& worker : workers) job.workers.push_back(worker.get());
  const ModelProfile profile =
      testlib::SyntheticProfile(*job.model, DType::kF32,
                                /*frozen_quantum=*/1, {1, 2, 4}, /*seed=*/3);
  for (const std::string strategy : {"1f1b", "data_parallel"}) {
    testlib::PlanRequest request;
    request.strategy = strategy;
    request.num_devices = 2;
    request.global_batch = kGlobalBatch;
    request.micro_batch_size = 1;
    request.num_stages = strategy == "data_parallel" ? 1 : 2;
    const auto plan = testlib::MakeTestPlan(profile, request);
    ASSERT_TRUE(plan.ok()) << strategy << ": " << plan.status();
    const auto actual = testlib::GradientsOf(job, *plan, /*steps=*/1);
    ASSERT_TRUE(actual.ok()) << strategy << ": " << actual.status();
    ExpectSame(*expected, actual->front(), strategy);
  }
}

TEST(MeanLossTest, ToyModel) {
  const nn::Model model = testlib::MakeToyModel();
  const testlib::ToyParameters parameters = testlib::MakeToyParameters(model, /*seed=*/5);
  testlib::ToyInputs inputs(&model, /*seed=*/9, DType::kF32);
  TrainingJob job;
  job.model = &model;
  job.inputs = &inputs;
  job.frozen_parameters = parameters.frozen_pointers;
  job.backbone_parameters = nn::SourceOf(parameters.backbone);
  ExpectGradientsOfMeanLoss(job);
}

void ExpectGradientsOfMeanLossOf(const std::string& model_folder) {
  const std::string pictures = ::testing::TempDir() + "/scenes";
  BuiltInDatasetOptions dataset;
  dataset.count = 16;
  ASSERT_TRUE(EnsureBuiltInDataset(pictures, dataset).ok());
  models::TrainingSetupOptions options;
  options.model_folder = model_folder;
  options.data.folder = pictures;
  options.num_devices = 1;
  options.global_batch = kGlobalBatch;
  options.frozen_quantum = 1;
  options.seed = 4;
  const auto setup = models::TrainingSetup::Create(options);
  ASSERT_TRUE(setup.ok()) << setup.status();
  ExpectGradientsOfMeanLoss((*setup)->job());
}

TEST(MeanLossTest, StableDiffusion) { ExpectGradientsOfMeanLossOf("data/tiny_sd"); }

TEST(MeanLossTest, Cascade) { ExpectGradientsOfMeanLossOf("data/tiny_cdm"); }

}  // namespace
}  // namespace dpipe
