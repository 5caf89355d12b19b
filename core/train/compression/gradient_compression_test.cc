#include "core/train/compression/gradient_compression.h"

#include <cmath>
#include <functional>
#include <thread>

#include "core/base/philox.h"
#include "core/comm/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kRanks = 2;

using Vectors = std::vector<std::vector<float>>;

// Gradient `i` of a rank in a step: `shapes[i]`, of low rank and noise.
std::vector<Tensor> Gradients(const std::vector<Shape>& shapes, int rank, int step, float noise) {
  std::vector<Tensor> gradients;
  for (size_t i = 0; i < shapes.size(); ++i) {
    Tensor gradient = Tensor::Zeros(Device::Cpu(), shapes[i], DType::kF32);
    const int64_t rows = shapes[i].rank() > 1 ? gradient.dim(0) : 1;
    const int64_t columns = gradient.num_elements() / rows;
    RandomStream pattern(5, i, 0, RandomPurpose::kTest);
    RandomStream stream(6, step, static_cast<uint32_t>(8 * i + rank), RandomPurpose::kTest);
    std::vector<float> left(rows), right(columns);
    for (float& x : left) x = pattern.NextNormal();
    for (float& x : right) x = pattern.NextNormal();
    for (int64_t k = 0; k < gradient.num_elements(); ++k) {
      gradient.data<float>()[k] =
          left[k / columns] * right[k % columns] + noise * stream.NextNormal();
    }
    gradients.push_back(gradient);
  }
  return gradients;
}

// The reduced gradients of every rank, step by step.
std::vector<std::vector<Vectors>> Reduce(const std::string& name, const CompressionOptions& options,
                                         const std::vector<Shape>& shapes, int steps, float noise) {
  auto communicators = CreateInProcessCommunicators(kRanks);
  std::vector<std::vector<Vectors>> result(kRanks, std::vector<Vectors>(steps));
  std::vector<std::thread> threads;
  for (int r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      const auto factory = CompressionFactory(name, options);
      ASSERT_TRUE(factory.ok()) << factory.status();
      const auto reducer = (*factory)(communicators[r].get());
      const std::vector<Rank> group = {Rank(0), Rank(1)};
      for (int step = 0; step < steps; ++step) {
        std::vector<Tensor> gradients = Gradients(shapes, r, step, noise);
        auto pending = reducer->Start(group, gradients, "all of them");
        ASSERT_TRUE(pending.ok()) << pending.status();
        ASSERT_TRUE((*pending)->Wait().ok());
        for (const Tensor& gradient : gradients) {
          result[r][step].emplace_back(gradient.data<float>(),
                                       gradient.data<float>() + gradient.num_elements());
        }
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return result;
}

// Of the sums over all steps: compressed, against exact, relative to the latter.
double ErrorOfSums(const std::vector<Vectors>& reduced, const std::vector<Shape>& shapes,
                   float noise) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::vector<double> exact(reduced[0][i].size(), 0), sum = exact;
    for (size_t step = 0; step < reduced.size(); ++step) {
      for (int r = 0; r < kRanks; ++r) {
        const auto gradients = Gradients(shapes, r, static_cast<int>(step), noise);
        for (size_t k = 0; k < exact.size(); ++k) exact[k] += gradients[i].data<float>()[k];
      }
      for (size_t k = 0; k < exact.size(); ++k) sum[k] += reduced[step][i][k];
    }
    for (size_t k = 0; k < exact.size(); ++k) {
      difference += (exact[k] - sum[k]) * (exact[k] - sum[k]);
      norm += exact[k] * exact[k];
    }
  }
  return std::sqrt(difference / norm);
}

const std::vector<Shape> kShapes = {{24, 40}, {40}, {16, 2, 3, 8}, {1}};

class CompressionTest : public ::testing::TestWithParam<std::string> {};

TEST_P(CompressionTest, AllRanksGetTheSameBits) {
  CompressionOptions options;
  options.choose_every = 2;
  const auto reduced = Reduce(GetParam(), options, kShapes, 7, 1.0f);
  EXPECT_EQ(reduced[0], reduced[1]);
}

// What one step leaves out comes in later ones: the error of the sum over many steps is far below
// that of one.
TEST_P(CompressionTest, ErrorFeedbackMakesUpForWhatIsLeftOut) {
  CompressionOptions options;
  options.rank = 1;
  options.choose_every = 0;
  options.kept_share = 0.1;
  const double one = ErrorOfSums(Reduce(GetParam(), options, kShapes, 1, 1.0f)[0], kShapes, 1.0f);
  const double many = ErrorOfSums(Reduce(GetParam(), options, kShapes, 60, 1.0f)[0], kShapes, 1.0f);
  EXPECT_GT(one, 0.2);
  EXPECT_LT(many, one / 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompressionTest, ::testing::Values("l-greco", "cupcake"),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param == "l-greco" ? "low_rank" : "sparse";
                         });

TEST(CompressionTest, WhatHasTheRankIsExact) {
  CompressionOptions options;
  options.rank = 1;
  EXPECT_LT(ErrorOfSums(Reduce("l-greco", options, kShapes, 3, 0)[0], kShapes, 0), 1e-5);
}

TEST(CompressionTest, AllKeptIsExact) {
  CompressionOptions options;
  options.kept_share = 1;
  EXPECT_LT(ErrorOfSums(Reduce("cupcake", options, kShapes, 3, 1.0f)[0], kShapes, 1.0f), 1e-6);
}

TEST(CompressionTest, UnknownNamesAreRefused) {
  EXPECT_THAT(std::string(CompressionFactory("zip", {}).status().message()),
              ::testing::HasSubstr("'zip'; there are l-greco, cupcake"));
}

}  // namespace
}  // namespace dpipe
