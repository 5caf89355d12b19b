#include "core/ops/cuda/emulated_gpu/emulation.h"

#include <cmath>
#include <numeric>
#include <vector>

#include "core/ops/cuda/kernels/kernel.h"
#include "gtest/gtest.h"

namespace dpipe::ops::cuda {
namespace {

constexpr Stream kEmulated = {nullptr, true};

// y[i] = the value of the block's next thread, through shared memory.
struct TakeFromNeighbour {
  bool with_barrier;
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    DPIPE_SHARED(float, shared, kThreads);
    shared[Thread()] = static_cast<float>(ThreadOfAll());
    if (with_barrier) Barrier();
    y[ThreadOfAll()] = shared[(Thread() + 1) % kThreads];
  }
};

std::vector<float> Neighbours(bool with_barrier, uint64_t order) {
  std::vector<float> y(3 * kThreads);
  emulation::SetOrder(order);
  Launch(kEmulated, 3, TakeFromNeighbour{with_barrier, y.data()});
  emulation::SetOrder(0);
  return y;
}

TEST(EmulationTest, BarrierMakesSharedMemoryVisible) {
  for (uint64_t order : {0, 1, 2}) {
    const std::vector<float> y = Neighbours(true, order);
    for (uint32_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], i / kThreads * kThreads + (i + 1) % kThreads);
    }
  }
}

TEST(EmulationTest, MissingBarrierMakesResultsDependOnOrder) {
  const auto bits = [](const std::vector<float>& y) {
    std::vector<uint32_t> result(y.size());
    std::memcpy(result.data(), y.data(), y.size() * sizeof(float));
    return result;
  };
  EXPECT_NE(bits(Neighbours(false, 1)), bits(Neighbours(false, 2)));
}

// y[i] = the value of the warp's next lane, through memory; x is then overwritten.
struct TakeFromNextLane {
  float* x;
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const uint32_t i = ThreadOfAll(), next = i / kWarp * kWarp + (i + 1) % kWarp;
    x[i] = static_cast<float>(i);
    WarpBarrier();
    y[i] = x[next];
    WarpBarrier();
    x[i] = -1;
  }
};

TEST(EmulationTest, WarpBarrierMakesMemoryVisible) {
  for (uint64_t order : {0, 1, 2}) {
    std::vector<float> x(2 * kThreads), y(2 * kThreads);
    emulation::SetOrder(order);
    Launch(kEmulated, 2, TakeFromNextLane{x.data(), y.data()});
    for (uint32_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(y[i], i / kWarp * kWarp + (i + 1) % kWarp);
    }
  }
  emulation::SetOrder(0);
}

// The largest value of each warp's lanes; the lanes below `first` have NaNs.
struct LargestOfWarp {
  uint32_t first;
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    const uint32_t lane = Thread() % kWarp;
    y[ThreadOfAll()] = WarpMax(lane < first ? NAN : 40.0f - static_cast<float>(lane));
  }
};

TEST(EmulationTest, WarpMaxIgnoresNans) {
  std::vector<float> y(kThreads);
  for (const uint32_t first : {0u, 1u, 17u, 31u}) {
    Launch(kEmulated, 1, LargestOfWarp{first, y.data()});
    for (const float largest : y) EXPECT_EQ(largest, 40.0f - static_cast<float>(first));
  }
}

struct Sums {
  double* warps;
  float* blocks;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    warps[ThreadOfAll()] = WarpSum(static_cast<double>(ThreadOfAll()));
    blocks[ThreadOfAll()] = BlockSum(static_cast<float>(Thread())) + BlockSum(1.0f);
  }
};

TEST(EmulationTest, WarpAndBlockSums) {
  std::vector<double> warps(2 * kThreads);
  std::vector<float> blocks(2 * kThreads);
  for (uint64_t order : {0, 7}) {
    emulation::SetOrder(order);
    Launch(kEmulated, 2, Sums{warps.data(), blocks.data()});
    for (uint32_t i = 0; i < warps.size(); ++i) {
      const double first = i / kWarp * kWarp;
      EXPECT_EQ(warps[i], kWarp * first + kWarp * (kWarp - 1) / 2);
      EXPECT_EQ(blocks[i], kThreads * (kThreads - 1) / 2 + kThreads);
    }
  }
  emulation::SetOrder(0);
}

struct BarrierForSome {
  DPIPE_KERNEL_FUNCTION void operator()() const {
    if (Thread() < 40) Barrier();
  }
};
struct ShuffleForSome {
  DPIPE_KERNEL_FUNCTION void operator()() const {
    if (Thread() % 2 == 0) LaneXor(1.0f, 2);
  }
};
struct ReadUnwritten {
  float* y;
  DPIPE_KERNEL_FUNCTION void operator()() const {
    DPIPE_SHARED(float, shared, 8);
    if (Thread() == 0) y[0] = shared[3];
  }
};

TEST(EmulationDeathTest, BarrierMissedBySomeThreadsDies) {
  EXPECT_DEATH(Launch(kEmulated, 1, BarrierForSome{}), "waits at a barrier.*has ended|has ended");
}

TEST(EmulationDeathTest, ShuffleMissedBySomeLanesDies) {
  EXPECT_DEATH(Launch(kEmulated, 1, ShuffleForSome{}), "waits at a shuffle");
}

TEST(EmulationTest, UnwrittenSharedMemoryIsNan) {
  float y = 0;
  Launch(kEmulated, 1, ReadUnwritten{&y});
  EXPECT_NE(y, y);
}

}  // namespace
}  // namespace dpipe::ops::cuda
