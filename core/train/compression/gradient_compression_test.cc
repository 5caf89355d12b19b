#include "core/train/compression/gradient_compression.h"

#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "core/base/philox.h"
#include "core/comm/in_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr int kRanks = 2;

using Vectors = std::vector<std::vector<float>>;

// Returns the gradients of a rank in a step: gradient i has `shapes[i]`, and is of low rank plus
// noise.
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

// Returns the gradients of a rank in a step.
using Source = std::function<std::vector<Tensor>(int rank, int step)>;

Source Noisy(const std::vector<Shape>& shapes, float noise) {
  return [=](int rank, int step) { return Gradients(shapes, rank, step, noise); };
}

// Returns the reduced gradients of every rank, step by step.
std::vector<std::vector<Vectors>> Reduce(const std::string& name, const CompressionOptions& options,
                                         const Source& source, int steps) {
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
        std::vector<Tensor> gradients = source(r, step);
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

// Returns the relative error of the sum over all steps, compressed against exact.
double ErrorOfSums(const std::vector<Vectors>& reduced, const Source& source) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < reduced[0].size(); ++i) {
    std::vector<double> exact(reduced[0][i].size(), 0), sum = exact;
    for (size_t step = 0; step < reduced.size(); ++step) {
      for (int r = 0; r < kRanks; ++r) {
        const auto gradients = source(r, static_cast<int>(step));
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
  const auto reduced = Reduce(GetParam(), options, Noisy(kShapes, 1.0f), 7);
  EXPECT_EQ(reduced[0], reduced[1]);
}

// Later steps send what one step leaves out: the error of the sum over many steps is far below that
// of one.
TEST_P(CompressionTest, ErrorFeedbackCompensatesDroppedParts) {
  CompressionOptions options;
  options.rank = 1;
  options.choose_every = 0;
  options.kept_share = 0.1;
  const Source source = Noisy(kShapes, 1.0f);
  const double one = ErrorOfSums(Reduce(GetParam(), options, source, 1)[0], source);
  const double many = ErrorOfSums(Reduce(GetParam(), options, source, 60)[0], source);
  EXPECT_GT(one, 0.2);
  EXPECT_LT(many, one / 2);
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompressionTest, ::testing::Values("l-greco", "cupcake"),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param == "l-greco" ? "low_rank" : "sparse";
                         });

TEST(CompressionTest, GradientsOfTheRankAreExact) {
  CompressionOptions options;
  options.rank = 1;
  const Source source = Noisy(kShapes, 0);
  EXPECT_LT(ErrorOfSums(Reduce("l-greco", options, source, 3)[0], source), 1e-5);
}

// As for parameters behind a zero-initialized convolution: factors that were zero in the first
// step, or of lower rank than possible, later find the gradients.
TEST(CompressionTest, FactorsRecoverFromZeroGradients) {
  CompressionOptions options;
  options.rank = 2;
  options.choose_every = 0;
  const Source noisy = Noisy({{24, 40}, {16, 2, 3, 8}}, 1.0f);
  const Source low_rank = Noisy({{24, 40}, {16, 2, 3, 8}}, 0);
  const auto error_after = [&](const Source& first, int steps) {
    const Source source = [&](int rank, int step) {
      return step == 0 ? first(rank, step) : noisy(rank, step);
    };
    const auto reduced = Reduce("l-greco", options, source, steps);
    EXPECT_EQ(reduced[0], reduced[1]);
    return ErrorOfSums(reduced[0], source);
  };
  const Source zeros = [&](int rank, int step) {
    auto gradients = noisy(rank, step);
    for (Tensor& gradient : gradients) gradient.FillZero();
    return gradients;
  };
  const double one = error_after(noisy, 1), many = error_after(noisy, 60);
  EXPECT_GT(one, 0.2);
  EXPECT_LT(many, one / 2);
  EXPECT_LT(error_after(zeros, 60), 1.1 * many);
  EXPECT_LT(error_after(low_rank, 60), 1.1 * many);
}

TEST(CompressionTest, KeepingAllIsExact) {
  CompressionOptions options;
  options.kept_share = 1;
  const Source source = Noisy(kShapes, 1.0f);
  EXPECT_LT(ErrorOfSums(Reduce("cupcake", options, source, 3)[0], source), 1e-6);
}

// The caller sees in the same step that its gradients are not finite.
TEST(CompressionTest, NonFiniteNumbersAreLargest) {
  CompressionOptions options;
  options.kept_share = 0.01;
  const Source source = [](int rank, int step) {
    auto gradients = Gradients({{500}}, rank, step, 1.0f);
    for (int k = 7; k < 500; k += 200) gradients[0].data<float>()[k] = std::nanf("");
    gradients[0].data<float>()[20] = -std::numeric_limits<float>::infinity();
    gradients[0].data<float>()[30] = 1e30f;
    return gradients;
  };
  const std::vector<float> sum = Reduce("cupcake", options, source, 1)[0][0][0];
  for (int k = 0; k < 500; ++k) {
    if (k == 7 || k == 207 || k == 407) {
      EXPECT_TRUE(std::isnan(sum[k])) << k;
    } else {
      EXPECT_EQ(sum[k], k == 20   ? -std::numeric_limits<float>::infinity()
                        : k == 30 ? 2e30f
                                  : 0)
          << k;
    }
  }
}

// With mostly NaNs, only the order of numbers is at stake.
TEST(CompressionTest, GradientsOfNaNsAreCompressed) {
  for (const std::string name : {"l-greco", "cupcake"}) {
    CompressionOptions options;
    options.choose_every = 2;
    const Source source = [](int rank, int step) {
      auto gradients = Gradients(kShapes, rank, step, 1.0f);
      for (size_t i = 0; i < gradients.size(); ++i) {
        for (int64_t k = rank; k < gradients[i].num_elements(); k += 2) {
          gradients[i].data<float>()[k] = std::nanf("");
        }
      }
      return gradients;
    };
    const auto reduced = Reduce(name, options, source, 4);
    for (const auto& of_rank : reduced) EXPECT_TRUE(std::isnan(of_rank[3][0][0])) << name;
  }
}

// The time depends on the amount sent, not on the amount it was chosen from: with a small share
// there is little to send while the next group is compressed.
TEST(CompressionTest, FusionWeighsMessageSizes) {
  CompressionOptions options;
  options.fusion.compress_fixed_ns = 1000;
  options.fusion.compress_ns_per_number = 10;
  options.fusion.send_fixed_ns = 0;
  options.fusion.send_ns_per_number = 100;
  const Source source = [](int rank, int step) {
    auto gradients = Gradients({{100}, {100}}, rank, step, 1.0f);
    for (float& x : gradients[0].span<float>()) x += 1000;
    return gradients;
  };
  const auto is_fused = [&](double kept_share) {
    options.kept_share = kept_share;
    const Vectors sums = Reduce("cupcake", options, source, 1)[0][0];
    return sums[1] == std::vector<float>(100, 0);  // none as large as in the first
  };
  EXPECT_TRUE(is_fused(0.01));
  EXPECT_FALSE(is_fused(0.5));
}

TEST(CompressionTest, SharesAreBounded) {
  for (double share : {-0.5, 1.5, std::nan("")}) {
    CompressionOptions options;
    options.kept_share = share;
    EXPECT_THAT(std::string(CompressionFactory("cupcake", options).status().message()),
                ::testing::HasSubstr("from 0 to 1; kept_share is "))
        << share;
  }
}

TEST(CompressionTest, UnknownNamesAreRefused) {
  EXPECT_THAT(std::string(CompressionFactory("zip", {}).status().message()),
              ::testing::HasSubstr("'zip'; there are l-greco, cupcake"));
}

}  // namespace
}  // namespace dpipe
