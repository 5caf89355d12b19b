#include "core/base/host/bound_spinning.h"

#include <cstdlib>
#include <string>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "(not set)" : value;
}

class BoundSpinningTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name :
         {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "DPIPE_PROGRAM_FILE", "DPIPE_SECOND_START"}) {
      unsetenv(name);
    }
  }

  void Start(bool has_openmp = true) {
    BoundSpinning(has_openmp, [this] {
      ++num_executed_;
      seen_ = Environment("GOMP_SPINCOUNT");
      if (executes_) BoundSpinning(true, [this] { ++num_executed_; });  // the second start
    });
  }

  bool executes_ = true;
  int num_executed_ = 0;
  std::string seen_;
};

TEST_F(BoundSpinningTest, StartsOnceMoreAndLeavesNoTrace) {
  Start();
  EXPECT_EQ(num_executed_, 1);
  EXPECT_EQ(seen_, kSpinCount);
  EXPECT_EQ(Environment("GOMP_SPINCOUNT"), "(not set)");
  EXPECT_EQ(Environment("DPIPE_SECOND_START"), "(not set)");
}

TEST_F(BoundSpinningTest, GoesOnIfItCannotBeExecuted) {
  executes_ = false;
  Start();
  EXPECT_EQ(num_executed_, 1);
  EXPECT_EQ(Environment("GOMP_SPINCOUNT"), "(not set)");
}

TEST_F(BoundSpinningTest, KeepsTheUsersChoice) {
  for (const char* name : {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}) {
    setenv(name, "7", 1);
    Start();
    EXPECT_EQ(num_executed_, 0) << name;
    EXPECT_EQ(Environment(name), "7");
    unsetenv(name);
  }
}

TEST_F(BoundSpinningTest, DoesNothingWithoutOpenMpOrBelowALoader) {
  Start(/*has_openmp=*/false);
  setenv("DPIPE_PROGRAM_FILE", "/bundle/train", 1);
  Start();
  EXPECT_EQ(num_executed_, 0);
}

}  // namespace
}  // namespace dpipe
