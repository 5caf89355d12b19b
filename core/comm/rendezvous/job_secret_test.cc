#include "core/comm/rendezvous/job_secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/files/scratch_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {

namespace {

// RFC 4231, test cases 1, 2 and 6.
TEST(HmacTest, PublishedValues) {
  const auto hmac = [](const std::string& key, const std::string& text) {
    return absl::BytesToHexString(HmacSha256(key, text));
  };
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(HmacTest, SameBytes) {
  EXPECT_TRUE(SameBytes("", ""));
  EXPECT_TRUE(SameBytes("abc", "abc"));
  EXPECT_FALSE(SameBytes("abc", "abd"));
  EXPECT_FALSE(SameBytes("abc", "ab"));
}

TEST(HmacTest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(32).size(), 32);
  EXPECT_NE(RandomBytes(32), RandomBytes(32));
}

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Variables = std::map<std::string, std::string>;

Environment Of(const Variables& set) {
  return [&set](const char* name) -> const char* {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  };
}

void Write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  ASSERT_EQ(chmod(path.c_str(), mode), 0);
}

mode_t ModeOf(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

std::string Words(const absl::StatusOr<JobSecret>& secret) {
  return std::string(secret.status().message());
}

TEST(JobSecretTest, HexIsReadAndWritten) {
  const JobSecret secret = JobSecret::Random();
  EXPECT_EQ(secret.Hex().size(), 64);
  EXPECT_EQ(JobSecret::FromHex(secret.Hex(), "it")->Sign("text"), secret.Sign("text"));
  EXPECT_NE(JobSecret::Random().Hex(), secret.Hex());
  EXPECT_TRUE(JobSecret().empty());
}

TEST(JobSecretTest, InvalidSecretIsNotEchoed) {
  for (const std::string& text :
       {std::string(), std::string("hunter2"), std::string(63, 'a'), std::string(64, 'g')}) {
    const auto secret = JobSecret::FromHex(text, "DPIPE_JOB_SECRET");
    EXPECT_EQ(secret.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(Words(secret), AllOf(HasSubstr(absl::StrCat("DPIPE_JOB_SECRET has ", text.size())),
                                     HasSubstr("must have 64 hexadecimal digits")));
    if (text.empty()) continue;
    EXPECT_THAT(Words(secret), Not(HasSubstr(text)));
  }
}

TEST(JobSecretTest, AFileIsReadIfItIsThisUsersAlone) {
  const ScratchFolder folder;
  const std::string path = folder.File("secret"), hex = JobSecret::Random().Hex();
  Write(path, hex + "\n");
  const auto secret = ReadSecretFile(path);
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->Hex(), hex);
  EXPECT_EQ(secret->source(), "the file " + path);
  for (mode_t mode : {0640, 0604, 0620, 0602, 0644, 0666}) {
    Write(path, hex, mode);
    EXPECT_EQ(ReadSecretFile(path).status().code(), absl::StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(Words(ReadSecretFile(path)),
                AllOf(HasSubstr("can be read or written by others (mode 6"),
                      HasSubstr("must be 600"), HasSubstr(path), Not(HasSubstr(hex))));
  }
  Write(path, "short");
  EXPECT_THAT(Words(ReadSecretFile(path)), HasSubstr("has 5 characters"));
  Write(path, std::string(1 << 20, 'a'));
  EXPECT_THAT(Words(ReadSecretFile(path)), HasSubstr("has 4096 characters"));
}

TEST(JobSecretTest, NonRegularFileIsRefused) {
  const ScratchFolder folder;
  const std::string fifo = folder.File("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder.path(), std::string("/dev/zero")}) {
    EXPECT_THAT(Words(ReadSecretFile(path)), HasSubstr("is not a regular file")) << path;
  }
  EXPECT_THAT(Words(ReadSecretFile(folder.File("none"))),
              AllOf(HasSubstr("does not exist"), HasSubstr("openssl rand -hex 32")));
}

TEST(JobSecretTest, AnotherUsersFileIsRefused) {
  const ScratchFolder folder;
  const std::string path = folder.File("secret");
  Write(path, JobSecret::Random().Hex());
  if (chown(path.c_str(), 12345, 12345) != 0) {
    GTEST_SKIP() << "only root can give a file away";
  }
  EXPECT_THAT(
      Words(ReadSecretFile(path)),
      HasSubstr(absl::StrCat("belongs to user 12345, but must belong to this user, ", geteuid())));
}

TEST(JobSecretTest, ProcessesThatMakeItTogetherHaveTheSame) {
  const ScratchFolder folder;
  const std::string place = folder.File("private");
  std::vector<std::string> found(16);
  std::vector<std::thread> threads;
  for (std::string& hex : found) {
    threads.emplace_back([&hex, &place] {
      const auto secret = ReadOrMakeSecretFile(place);
      EXPECT_TRUE(secret.ok()) << secret.status();
      if (secret.ok()) hex = secret->Hex();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()).size(), 1);
  EXPECT_EQ(found[0].size(), 64);
  EXPECT_EQ(ModeOf(place), 0700);
  EXPECT_EQ(ModeOf(place + "/job_secret"), 0600);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(place), {}), 1) << "nothing else";
}

TEST(JobSecretTest, AFolderThatOthersCanUseIsRefused) {
  const ScratchFolder folder;
  const std::string place = folder.File("open"), target = folder.File("target");
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  ASSERT_EQ(chmod(place.c_str(), 0770), 0);
  EXPECT_THAT(Words(ReadOrMakeSecretFile(place)),
              AllOf(HasSubstr(place), HasSubstr("can be used by others; run chmod 700")));
  EXPECT_FALSE(std::filesystem::exists(place + "/job_secret"));
  ASSERT_EQ(mkdir(target.c_str(), 0700), 0);
  ASSERT_EQ(symlink(target.c_str(), folder.File("link").c_str()), 0);
  EXPECT_THAT(Words(ReadOrMakeSecretFile(folder.File("link"))), HasSubstr("is not a folder"));
  if (chown(target.c_str(), 12345, 12345) == 0) {
    EXPECT_THAT(Words(ReadOrMakeSecretFile(target)), HasSubstr("belongs to user 12345"));
  }
}

// Finds the secrets of a job's first two processes, from the variables that their starter sets.
void ExpectTheSame(const std::vector<Variables>& processes) {
  std::vector<std::string> found;
  for (const Variables& variables : processes) {
    const auto address = JobAddressFromEnvironment(Of(variables));
    ASSERT_TRUE(address.ok() && address->has_value()) << address.status();
    const auto secret = FindJobSecret(**address, "", Of(variables));
    ASSERT_TRUE(secret.ok()) << secret.status();
    found.push_back(secret->Hex());
  }
  EXPECT_EQ(found[0], found[1]);
  EXPECT_EQ(found[0].size(), 64);
}

TEST(JobSecretTest, EveryLaunchersProcessesHaveOneByDefault) {
  const ScratchFolder home;
  std::vector<Variables> torchrun, slurm, open_mpi;
  for (int process : {0, 1}) {
    const std::string number = absl::StrCat(process);
    torchrun.push_back({{"HOME", home.path()},
                        {"RANK", number},
                        {"WORLD_SIZE", "2"},
                        {"LOCAL_RANK", "0"},
                        {"LOCAL_WORLD_SIZE", "1"},
                        {"MASTER_ADDR", "node0"},
                        {"MASTER_PORT", "29500"}});
    slurm.push_back({{"HOME", home.path()},
                     {"SLURM_PROCID", number},
                     {"SLURM_NTASKS", "2"},
                     {"SLURM_LOCALID", "0"},
                     {"SLURM_STEP_ID", "0"},
                     {"SLURM_NODEID", number},
                     {"SLURM_TASKS_PER_NODE", "1(x2)"},
                     {"SLURM_JOB_ID", "12345"},
                     {"SLURM_JOB_NODELIST", "node[03-04]"}});
    open_mpi.push_back({{"HOME", home.path()},
                        {"OMPI_COMM_WORLD_RANK", number},
                        {"OMPI_COMM_WORLD_SIZE", "2"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                        {"MASTER_ADDR", "node0"}});
  }
  ExpectTheSame(torchrun);
  ExpectTheSame(slurm);
  ExpectTheSame(open_mpi);
  EXPECT_EQ(ModeOf(home.File(".dpipe/job_secret")), 0600);
}

JobAddress Job(int num_local, int num_processes) {
  JobAddress address;
  address.num_local = num_local;
  address.num_processes = num_processes;
  return address;
}

TEST(JobSecretTest, ExplicitSourceTakesPrecedence) {
  const ScratchFolder home;
  const std::string by_flag = home.File("flag"), by_variable = home.File("variable");
  const JobSecret first = JobSecret::Random(), second = JobSecret::Random(),
                  third = JobSecret::Random();
  Write(by_flag, first.Hex());
  Write(by_variable, third.Hex());
  Variables set = {{"HOME", home.path()},
                   {"DPIPE_JOB_SECRET", second.Hex()},
                   {"DPIPE_JOB_SECRET_FILE", by_variable}};
  EXPECT_EQ(FindJobSecret(Job(1, 2), by_flag, Of(set))->Hex(), first.Hex());
  EXPECT_EQ(FindJobSecret(Job(1, 2), "", Of(set))->Hex(), second.Hex());
  EXPECT_EQ(FindJobSecret(Job(1, 2), "", Of(set))->source(), "DPIPE_JOB_SECRET");
  set.erase("DPIPE_JOB_SECRET");
  EXPECT_EQ(FindJobSecret(Job(1, 2), "", Of(set))->Hex(), third.Hex());
  EXPECT_FALSE(std::filesystem::exists(home.File(".dpipe"))) << "none was needed";
  set["DPIPE_JOB_SECRET"] = "hunter2";
  EXPECT_THAT(Words(FindJobSecret(Job(1, 2), "", Of(set))),
              AllOf(HasSubstr("DPIPE_JOB_SECRET has 7 characters"), Not(HasSubstr("hunter2"))));
}

TEST(JobSecretTest, ErrorOnSeveralHostsShowsHowToMakeOne) {
  const ScratchFolder folder;
  for (const std::string& home : {std::string(), folder.File("none"), std::string("relative")}) {
    const Variables set = {{"HOME", home}};
    EXPECT_THAT(Words(FindJobSecret(Job(1, 2), "", Of(set))),
                HasSubstr("export DPIPE_JOB_SECRET=$(openssl rand -hex 32), once, and give it to"));
  }
}

TEST(JobSecretTest, OneHostNeedsNoHomeFolder) {
  const auto secret = FindJobSecret(Job(2, 2), "", Of({}));
  ASSERT_TRUE(secret.ok()) << secret.status();
  EXPECT_EQ(secret->source(), absl::StrCat("the file /tmp/dpipe-", geteuid(), "/job_secret"));
}

}  // namespace

}  // namespace dpipe
