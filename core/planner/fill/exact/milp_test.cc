#include "core/planner/fill/exact/milp.h"

#include <vector>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

TEST(MilpTest, Knapsack) {
  // Weights 5, 4, 3, values 10, 40, 50, capacity 8: the last two are best, with a value of 90.
  Milp milp;
  const std::vector<double> weights = {5, 4, 3}, values = {10, 40, 50};
  std::vector<MilpTerm> row;
  for (int i = 0; i < 3; ++i) row.push_back({milp.AddBinary(-values[i]), weights[i]});
  milp.AddRow(-kMilpInfinity, 8, row);
  testing::internal::CaptureStdout();
  const absl::StatusOr<MilpSolution> solution = milp.Minimize({});
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  ASSERT_TRUE(solution.ok()) << solution.status();
  EXPECT_TRUE(solution->found);
  EXPECT_TRUE(solution->proven);
  EXPECT_EQ(solution->objective, -90);
  EXPECT_EQ(solution->values, (std::vector<double>{0, 1, 1}));
}

TEST(MilpTest, IntegersNotFractions) {
  // max x + y with 2x + 2y <= 5: 2.5 for fractions, 2 for integers.
  Milp milp;
  const int x = milp.AddVariable(0, 10, -1, true), y = milp.AddVariable(0, 10, -1, true);
  milp.AddRow(-kMilpInfinity, 5, {{x, 2}, {y, 2}});
  const absl::StatusOr<MilpSolution> solution = milp.Minimize({});
  ASSERT_TRUE(solution.ok());
  EXPECT_EQ(solution->objective, -2);
  EXPECT_TRUE(solution->proven);
}

TEST(MilpTest, InfeasibleIsProven) {
  Milp milp;
  const int x = milp.AddVariable(0, 1, 1, true);
  milp.AddRow(0.25, 0.75, {{x, 1}});
  const absl::StatusOr<MilpSolution> solution = milp.Minimize({});
  ASSERT_TRUE(solution.ok());
  EXPECT_FALSE(solution->found);
  EXPECT_TRUE(solution->proven);
}

TEST(MilpTest, InfeasibleLinearRelaxation) {
  Milp milp;
  const int x = milp.AddVariable(0, 1, 1, true);
  milp.AddRow(2, 3, {{x, 1}});
  const absl::StatusOr<MilpSolution> solution = milp.Minimize({});
  ASSERT_TRUE(solution.ok());
  EXPECT_FALSE(solution->found);
  EXPECT_TRUE(solution->proven);
}

}  // namespace
}  // namespace dpipe
