#include "core/base/host/cgroup_limits.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace dpipe {
namespace {

constexpr char kV2Mount[] =
    "22 1 0:21 / /proc rw - proc proc rw\n"
    "34 25 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate\n";
constexpr char kV1Mounts[] =
    "33 25 0:28 / /sys/fs/cgroup/cpu rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 25 0:30 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n";

// Writes the kernel's files below a folder of the test.
class CgroupLimitsTest : public ::testing::Test {
 protected:
  CgroupLimitsTest()
      : root_(::testing::TempDir() + "/" +
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(root_);
  }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void WriteV2(const std::string& group, const std::string& limit, const std::string& usage,
               const std::string& stat) {
    Write(group + "/memory.max", limit + "\n");
    Write(group + "/memory.current", usage + "\n");
    Write(group + "/memory.stat", stat);
  }
  // Returns -1 if there is no limit.
  int64_t Room() { return CgroupRoomBytes(root_).value_or(-1); }

  double Cpus() { return CgroupCpus(root_).value_or(-1); }

  const std::string root_;
};

TEST_F(CgroupLimitsTest, NoGroupNoLimit) {
  EXPECT_EQ(Room(), -1);
  Write("/proc/self/cgroup", "0::/\n");
  Write("/proc/self/mountinfo", kV2Mount);
  EXPECT_EQ(Room(), -1);
  WriteV2("/sys/fs/cgroup/job", "max", "5000", "");
  Write("/proc/self/cgroup", "0::/job\n");
  EXPECT_EQ(Room(), -1);
}

TEST_F(CgroupLimitsTest, InactiveFilePagesCountAsFree) {
  Write("/proc/self/cgroup", "0::/job\n");
  Write("/proc/self/mountinfo", kV2Mount);
  WriteV2("/sys/fs/cgroup/job", "10000", "7000",
          "anon 3000\ninactive_anon 99\ninactive_file 2500\nactive_file 1500\n");
  EXPECT_EQ(Room(), 10000 - (7000 - 2500));
  WriteV2("/sys/fs/cgroup/job", "10000", "12000", "inactive_file 500\n");
  EXPECT_EQ(Room(), 0) << "full, not unlimited";
}

TEST_F(CgroupLimitsTest, TightestLimitOfTheParentsApplies) {
  Write("/proc/self/cgroup", "0::/slice/job/step\n");
  Write("/proc/self/mountinfo", kV2Mount);
  WriteV2("/sys/fs/cgroup/slice", "10000", "9000", "inactive_file 100\n");
  WriteV2("/sys/fs/cgroup/slice/job", "max", "4000", "inactive_file 100\n");
  WriteV2("/sys/fs/cgroup/slice/job/step", "6000", "4000", "inactive_file 0\n");
  EXPECT_EQ(Room(), 1100);
  WriteV2("/sys/fs/cgroup/slice", "20000", "9000", "inactive_file 100\n");
  EXPECT_EQ(Room(), 2000);
}

TEST_F(CgroupLimitsTest, ReadsV1) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:/docker/c1\n0::/\n");
  Write("/proc/self/mountinfo", kV1Mounts);
  const std::string group = "/sys/fs/cgroup/memory/docker/c1";
  Write(group + "/memory.limit_in_bytes", "8000\n");
  Write(group + "/memory.usage_in_bytes", "5000\n");
  Write(group + "/memory.stat", "inactive_file 1\ntotal_inactive_file 700\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "6000\n");
  EXPECT_EQ(Room(), 8000 - 5000 + 700);
}

// The mount's root is the container's own group.
TEST_F(CgroupLimitsTest, ContainersSeeTheirGroupAsTheRoot) {
  Write("/proc/self/cgroup", "0::/docker/c1/job\n");
  Write("/proc/self/mountinfo",
        "34 25 0:29 /docker/c1 /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n");
  WriteV2("/sys/fs/cgroup", "10000", "7000", "inactive_file 0\n");
  WriteV2("/sys/fs/cgroup/job", "8000", "7000", "inactive_file 0\n");
  EXPECT_EQ(Room(), 1000);
  Write("/proc/self/cgroup", "0::/docker/c1\n");
  EXPECT_EQ(Room(), 3000);
  Write("/proc/self/cgroup", "0::/../../other\n");
  EXPECT_EQ(Room(), 3000);
}

TEST_F(CgroupLimitsTest, SmallestQuotaOfTheParentsApplies) {
  EXPECT_EQ(Cpus(), -1);
  Write("/proc/self/cgroup", "0::/slice/job\n");
  Write("/proc/self/mountinfo", kV2Mount);
  Write("/sys/fs/cgroup/slice/cpu.max", "max 100000\n");
  EXPECT_EQ(Cpus(), -1);
  Write("/sys/fs/cgroup/slice/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(Cpus(), 4);
  Write("/sys/fs/cgroup/slice/cpu.max", "75000 50000\n");
  EXPECT_EQ(Cpus(), 1.5);
  for (const char* text : {"", "what", "max", "100000 0\n", "-1 100000\n"}) {
    Write("/sys/fs/cgroup/slice/cpu.max", text);
    EXPECT_EQ(Cpus(), 4) << text;
  }
}

TEST_F(CgroupLimitsTest, ReadsQuotasOfV1) {
  Write("/proc/self/cgroup", "5:cpu,cpuacct:/docker/c1\n4:memory:/elsewhere\n0::/\n");
  Write("/proc/self/mountinfo", kV1Mounts);
  const std::string group = "/sys/fs/cgroup/cpu/docker/c1";
  Write(group + "/cpu.cfs_period_us", "100000\n");
  Write(group + "/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Cpus(), -1);
  Write(group + "/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(Cpus(), 0.5);
}

TEST(CgroupRoomTest, ThisMachineCanBeRead) { EXPECT_GE(CgroupRoomBytes().value_or(0), 0); }

}  // namespace
}  // namespace dpipe
