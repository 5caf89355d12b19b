// Checkpoints on disk: restored content, and handling of damage.
#include "core/train/checkpoint/checkpoint.h"

#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "core/base/files/file.h"
#include "core/base/philox.h"
#include "core/comm/rendezvous/launch/process_exit.h"
#include "core/tensor/cpu_device.h"
#include "core/train/checkpoint/checkpoint_folder.h"
#include "core/train/checkpoint/checkpoint_manifest.h"
#include "core/train/checkpoint/checkpoint_reader.h"
#include "core/train/checkpoint/checkpoint_saver.h"
#include "core/train/checkpoint/checkpoint_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor RandomTensor(const Shape& shape, uint64_t seed) {
  Tensor tensor = Tensor::Empty(Device::Cpu(), shape, DType::kF32);
  RandomStream random(seed, 0, 0, RandomPurpose::kTest);
  for (float& x : tensor.span<float>()) x = random.NextNormal();
  return tensor;
}

// "a" is [3, 5], in two parts that end inside a row; "b" is one number; moments of "a" in bf16.
CheckpointContent MakeContent(int64_t step) {
  CheckpointContent content;
  content.info.step = step;
  content.info.num_updates = step;
  content.info.seed = 0xfedcba9876543210u;
  content.info.global_batch = 8;
  content.info.dataset_size = 100;
  content.info.data_fingerprint = "f00d";
  content.info.loss_sum = 0.1 + 0.2;
  content.info.config = {{"model", "tiny \"sd\"\n"}, {"lr", "0.001"}};
  content.info.plan_for = {{"devices", "2"}};
  content.texts["plan.textproto"] = "strategy: \"gpipe\"\n";
  content.state.next_step = step;
  const Tensor a = RandomTensor({15}, step);
  const Tensor m = RandomTensor({3, 5}, step + 1).To(DType::kBf16);
  content.state.tensors = {{"m", "a", {3, 5}, 0, m},
                           {"weight", "a", {3, 5}, 0, a.Slice(0, 7)},
                           {"weight", "a", {3, 5}, 7, a.Slice(7, 15)},
                           {"weight", "b", {1}, 0, RandomTensor({1}, step + 2)}};
  return content;
}

// Returns "" if the checkpoint has exactly the content.
std::string Difference(const Checkpoint& checkpoint, const CheckpointContent& content) {
  if (CheckpointInfoText(checkpoint.info()) != CheckpointInfoText(content.info)) return "info";
  for (const StateTensor& expected : content.state.tensors) {
    StateTensor read = expected;
    read.part = Tensor::Zeros(Device::Cpu(), expected.part.shape(), expected.part.dtype());
    const absl::Status status = checkpoint.reader()(read);
    if (!status.ok()) return std::string(status.message());
    if (std::memcmp(read.part.raw_data(), expected.part.raw_data(), read.part.size_bytes()) != 0) {
      return expected.kind + " of " + expected.parameter;
    }
  }
  return "";
}

class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest()
      : folder_(::testing::TempDir() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(folder_);
  }
  std::unique_ptr<CheckpointFolder> Open() {
    auto opened = CheckpointFolder::Open(folder_);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  // Returns the step of the newest complete checkpoint, or -1; messages go to messages_.
  int64_t Newest(const CheckpointFolder& folder) {
    messages_.clear();
    auto newest = folder.OpenNewest([this](const std::string& line) { messages_ += line + "\n"; });
    EXPECT_TRUE(newest.ok()) << newest.status();
    return *newest == nullptr ? -1 : (*newest)->info().step;
  }

  const std::string folder_;
  std::string messages_;
};

TEST_F(CheckpointTest, RoundTrips) {
  const CheckpointContent content = MakeContent(12);
  auto folder = Open();
  const auto bytes = folder->Write(content);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, 15 * 4 + 4 + 15 * 2);
  const auto checkpoint = Checkpoint::Open(folder->PathOf(12));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(Difference(**checkpoint, content), "");
  EXPECT_EQ((*checkpoint)->info().seed, content.info.seed);
  EXPECT_EQ((*checkpoint)->info().loss_sum, 0.1 + 0.2);
  EXPECT_EQ((*checkpoint)->info().config, content.info.config);
  EXPECT_EQ((*checkpoint)->info().epoch_position(), 96);
  EXPECT_EQ(*(*checkpoint)->Text("plan.textproto"), "strategy: \"gpipe\"\n");
  EXPECT_FALSE((*checkpoint)->Text("config.textproto").ok());
  EXPECT_FALSE(fs::exists(folder->PathOf(12) + kUnfinishedSuffix));
}

// The parts may differ between saving and reading.
TEST_F(CheckpointTest, PartsNeedNotBeTheSame) {
  const CheckpointContent content = MakeContent(1);
  auto folder = Open();
  ASSERT_TRUE(folder->Write(content).ok());
  const auto checkpoint = Checkpoint::Open(folder->PathOf(1));
  ASSERT_TRUE(checkpoint.ok());
  std::vector<float> whole;
  for (int i : {1, 2}) {
    for (float x : content.state.tensors[i].part.span<float>()) whole.push_back(x);
  }
  for (int begin = 0; begin < 15; ++begin) {
    const Tensor part = Tensor::Zeros(Device::Cpu(), {15 - begin}, DType::kF32);
    ASSERT_TRUE((*checkpoint)->reader()({"weight", "a", {3, 5}, begin, part}).ok());
    EXPECT_EQ(part.data<float>()[0], whole[begin]);
    EXPECT_EQ(part.span<float>().back(), whole.back());
  }
}

TEST_F(CheckpointTest, MismatchesAreNamed) {
  auto folder = Open();
  ASSERT_TRUE(folder->Write(MakeContent(1)).ok());
  const auto checkpoint = Checkpoint::Open(folder->PathOf(1));
  ASSERT_TRUE(checkpoint.ok());
  const auto read = [&](const std::string& kind, const std::string& name, const Shape& shape) {
    const Tensor part = Tensor::Zeros(Device::Cpu(), shape, DType::kF32);
    return std::string((*checkpoint)->reader()({kind, name, shape, 0, part}).message());
  };
  EXPECT_THAT(read("average", "a", {3, 5}), HasSubstr("has no average.safetensors"));
  EXPECT_THAT(read("weight", "c", {3, 5}), HasSubstr("weight.safetensors has no c"));
  EXPECT_THAT(read("weight", "a", {5, 3}), HasSubstr("a is F32 [3, 5], expected F32 [5, 3]"));
  EXPECT_THAT(read("m", "a", {3, 5}), HasSubstr("a is BF16 [3, 5], expected F32 [3, 5]"));
}

// Truncates every file anywhere, removes every file, changes any byte: always detected.
TEST_F(CheckpointTest, DetectsAnyDamage) {
  auto folder = Open();
  ASSERT_TRUE(folder->Write(MakeContent(1)).ok());
  ASSERT_TRUE(folder->Write(MakeContent(2)).ok());
  ASSERT_EQ(Newest(*folder), 2);
  int damaged = 0;
  for (const auto& entry : fs::directory_iterator(folder->PathOf(2))) {
    const std::string path = entry.path().string();
    const std::string right = *ReadFile(path);
    const auto write = [&](const std::string& bytes) { std::ofstream(path) << bytes; };
    const auto expect_skipped = [&](const std::string& what) {
      EXPECT_EQ(Newest(*folder), 1) << path << " " << what;
      EXPECT_THAT(messages_, HasSubstr("step_00000002 is not a complete checkpoint")) << what;
      ++damaged;
    };
    for (size_t size = 0; size < right.size(); size += 1 + right.size() / 40) {
      write(right.substr(0, size));
      expect_skipped("cut to " + std::to_string(size));
    }
    for (size_t at = 0; at < right.size(); at += 1 + right.size() / 60) {
      std::string wrong = right;
      wrong[at] ^= 1;
      write(wrong);
      expect_skipped("changed at " + std::to_string(at));
    }
    fs::remove(path);
    expect_skipped("missing");
    write(right);
    ASSERT_EQ(Newest(*folder), 2);
  }
  EXPECT_GT(damaged, 300);
}

// A run must not restart from scratch because of that.
TEST_F(CheckpointTest, NoReadableCheckpointIsAnError) {
  auto folder = Open();
  EXPECT_EQ(Newest(*folder), -1);
  fs::create_directories(folder->PathOf(3));
  fs::create_directories(folder->PathOf(7));
  const auto newest = folder->OpenNewest([](const std::string&) {});
  EXPECT_EQ(newest.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(newest.status().message()), HasSubstr("none of the 2 checkpoints in"));
}

TEST_F(CheckpointTest, LeftoversOfDeadRunsAreRemoved) {
  Open();
  fs::create_directories(folder_ + "/step_00000007.unfinished");
  fs::create_directories(folder_ + "/step_00000008.unfinished.txt");
  fs::create_directories(folder_ + "/notes.unfinished");
  auto folder = Open();
  EXPECT_FALSE(fs::exists(folder_ + "/step_00000007.unfinished"));
  EXPECT_TRUE(fs::exists(folder_ + "/step_00000008.unfinished.txt"));
  EXPECT_TRUE(fs::exists(folder_ + "/notes.unfinished"));
  EXPECT_THAT(*folder->Steps(), ElementsAre());
}

TEST_F(CheckpointTest, OneRunAtATime) {
  auto folder = Open();
  const absl::Status second = CheckpointFolder::Open(folder_).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.message()), HasSubstr("another process is training into"));
  folder = nullptr;
  EXPECT_TRUE(CheckpointFolder::Open(folder_).ok());
}

TEST_F(CheckpointTest, ReadOnlyOpenChangesNothing) {
  {
    const auto none = CheckpointFolder::OpenReadOnly(folder_);
    ASSERT_TRUE(none.ok()) << none.status();
    EXPECT_THAT(*(*none)->Steps(), ElementsAre());
  }
  EXPECT_FALSE(fs::exists(folder_));
  auto folder = Open();
  ASSERT_TRUE(folder->Write(MakeContent(12)).ok());
  const absl::Status taken = CheckpointFolder::OpenReadOnly(folder_).status();
  EXPECT_THAT(std::string(taken.message()), HasSubstr("another process is training into"));
  folder = nullptr;
  fs::create_directories(folder_ + "/step_00000013.unfinished");
  {
    const auto reading = CheckpointFolder::OpenReadOnly(folder_);
    ASSERT_TRUE(reading.ok()) << reading.status();
    const auto newest = (*reading)->OpenNewest([](const std::string&) {});
    ASSERT_TRUE(newest.ok()) << newest.status();
    EXPECT_EQ((*newest)->info().step, 12);
    EXPECT_TRUE(CheckpointFolder::OpenReadOnly(folder_).ok()) << "no process holds it";
  }
  EXPECT_TRUE(fs::exists(folder_ + "/step_00000013.unfinished"));
  EXPECT_TRUE(fs::exists(folder_ + "/LOCK"));
}

TEST_F(CheckpointTest, RetentionKeepsTheNewestAndEveryNth) {
  auto folder = Open();
  CheckpointRetention retention;
  retention.keep_last = 2;
  retention.keep_every = 4;
  for (int64_t step = 1; step <= 10; ++step) {
    ASSERT_TRUE(folder->Write(MakeContent(step)).ok());
    ASSERT_TRUE(folder->RemoveOld(step, retention).ok());
  }
  EXPECT_THAT(*folder->Steps(), ElementsAre(4, 8, 9, 10));
  retention.keep_last = 0;  // at least one is kept
  retention.keep_every = 0;
  ASSERT_TRUE(folder->Write(MakeContent(11)).ok());
  ASSERT_TRUE(folder->RemoveOld(11, retention).ok());
  EXPECT_THAT(*folder->Steps(), ElementsAre(11));
}

// A damaged checkpoint of a later step must not count as one of those kept.
TEST_F(CheckpointTest, RetentionNeverLeavesOnlyDamagedOnes) {
  auto folder = Open();
  CheckpointRetention retention;
  retention.keep_last = 1;
  ASSERT_TRUE(folder->Write(MakeContent(10)).ok());
  ASSERT_TRUE(folder->RemoveOld(10, retention).ok());
  fs::create_directories(folder->PathOf(20));
  ASSERT_TRUE(folder->Write(MakeContent(15)).ok());
  ASSERT_TRUE(folder->RemoveOld(15, retention).ok());
  EXPECT_EQ(Newest(*folder), 15);
  ASSERT_TRUE(folder->SetAsideAfter(15).ok());
  EXPECT_THAT(*folder->Steps(), ElementsAre(15));
  EXPECT_TRUE(fs::exists(folder->PathOf(20) + ".aside"));
  fs::create_directories(folder->PathOf(20));
  ASSERT_TRUE(folder->SetAsideAfter(15).ok());
  EXPECT_TRUE(fs::exists(folder->PathOf(20) + ".aside2"));
}

TEST_F(CheckpointTest, AllMoveToAnotherFolder) {
  auto folder = Open();
  ASSERT_TRUE(folder->Write(MakeContent(10)).ok());
  ASSERT_TRUE(folder->Write(MakeContent(20)).ok());
  ASSERT_TRUE(folder->SetAsideAfter(10).ok());
  const std::string other = folder->path() + ".other";
  fs::remove_all(other);
  EXPECT_EQ(*folder->MoveAllTo(other), 2);
  EXPECT_THAT(*folder->Steps(), ElementsAre());
  EXPECT_EQ(*folder->MoveAllTo(other + "2"), 0);
  EXPECT_FALSE(fs::exists(other + "2"));
  EXPECT_TRUE(fs::exists(other + "/step_00000020.aside"));
  EXPECT_TRUE(Checkpoint::Open(other + "/step_00000010").ok());
}

// As after a failed start.
TEST_F(CheckpointTest, EmptyFolderIsRemoved) {
  std::string path;
  {
    auto folder = Open();
    path = folder->path();
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(CheckpointTest, StepsAreReplacedCompletely) {
  auto folder = Open();
  CheckpointContent content = MakeContent(5);
  ASSERT_TRUE(folder->Write(content).ok());
  content.texts.clear();
  content.info.num_updates = 4;
  ASSERT_TRUE(folder->Write(content).ok());
  const auto checkpoint = Checkpoint::Open(folder->PathOf(5));
  ASSERT_TRUE(checkpoint.ok());
  EXPECT_EQ(Difference(**checkpoint, content), "");
  EXPECT_FALSE((*checkpoint)->Text("plan.textproto").ok());
}

// The system's limit on file sizes ends a write in the middle, like a full disk.
TEST_F(CheckpointTest, FullDiskKeepsOldCheckpoints) {
  auto folder = Open();
  ASSERT_TRUE(folder->Write(MakeContent(1)).ok());
  signal(SIGXFSZ, SIG_IGN);
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  for (bool in_background : {false, true}) {
    rlimit small = old;
    small.rlim_cur = 100;  // less than one of the tensors' headers
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    CheckpointSaver::Options options;
    options.in_background = in_background;
    CheckpointSaver saver(folder.get(), options);
    absl::Status status = saver.Save(MakeContent(2));
    status.Update(saver.Wait());
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_TRUE(IsDiskFull(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the checkpoint of step 2 was not written: cannot write"));
    EXPECT_TRUE(saver.Wait().ok()) << "an error is reported once";
    EXPECT_EQ(saver.stats().num_saved, 0);
    EXPECT_EQ(saver.stats().last_step, -1);
    EXPECT_FALSE(fs::exists(folder->PathOf(2) + kUnfinishedSuffix));
    EXPECT_EQ(Newest(*folder), 1);
    EXPECT_EQ(messages_, "");
    // The disk has room again: the same saver continues.
    ASSERT_TRUE(saver.Save(MakeContent(2)).ok());
    ASSERT_TRUE(saver.Wait().ok());
    EXPECT_EQ(Newest(*folder), 2);
    fs::remove_all(folder->PathOf(2));
  }
}

// A device whose memory is read only through it. Notes if there is a hold during a read.
class WatchedDevice : public CpuDevice {
 public:
  explicit WatchedDevice(bool* was_held)
      : CpuDevice(DeviceKind::kCpu, "watched", {}, 1), was_held_(was_held) {}
  bool has_host_memory() const override { return false; }
  void CopyToHost(void* host, const void* from, int64_t size_bytes) override {
    *was_held_ = ExitHold::held();
    CpuDevice::CopyToHost(host, from, size_bytes);
  }

 private:
  bool* const was_held_;
};

TEST_F(CheckpointTest, AFailingJobWaitsForTheWrite) {
  auto folder = Open();
  CheckpointSaver::Options options;
  options.in_background = false;  // tensors are read while they are written
  CheckpointSaver saver(folder.get(), options);
  bool was_held = false;
  CheckpointContent content = MakeContent(3);
  Tensor& part = content.state.tensors[0].part;
  part = part.CopyTo(std::make_shared<WatchedDevice>(&was_held));
  ASSERT_TRUE(saver.Save(std::move(content)).ok());
  EXPECT_TRUE(was_held);
  EXPECT_FALSE(ExitHold::held());
}

TEST_F(CheckpointTest, MakesRoomButKeepsTheNewestComplete) {
  auto folder = Open();
  for (int64_t step : {4, 5, 6, 7}) ASSERT_TRUE(folder->Write(MakeContent(step)).ok());
  fs::remove(folder->PathOf(7) + "/state.json");
  CheckpointRetention retention;
  retention.keep_every = 4;
  EXPECT_EQ(*folder->RemoveAllButNewest(10, retention), 1);
  EXPECT_THAT(*folder->Steps(), ElementsAre(4, 6, 7));
  EXPECT_EQ(*folder->RemoveAllButNewest(10, {}), 1);
  EXPECT_THAT(*folder->Steps(), ElementsAre(6, 7));
  EXPECT_EQ(*folder->RemoveAllButNewest(10, {}), 0) << "the only one that is complete";
  EXPECT_EQ(*folder->RemoveAllButNewest(6, {}), 0) << "none before it";
}

// Mounts a small disk that is visible only to this thread and the threads that it starts. Returns
// an error if the system does not permit that.
absl::Status MountSmallDisk(const std::string& folder, const std::string& size) {
  fs::create_directories(folder);
  const std::string options = "size=" + size;
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", folder.c_str(), "tmpfs", 0, options.c_str()) != 0) {
    return absl::PermissionDeniedError(std::strerror(errno));
  }
  return absl::OkStatus();
}

// Room for two and a half: the third one only fits after the first has been removed.
TEST_F(CheckpointTest, NeedsDiskSpaceOnlyForKeptCheckpoints) {
  std::thread with_a_disk([this] {
    const absl::Status mounted = MountSmallDisk(folder_, "64M");
    if (!mounted.ok()) GTEST_SKIP() << mounted;
    auto folder = Open();
    CheckpointSaver::Options options;
    options.retention.keep_last = 2;
    CheckpointSaver saver(folder.get(), options);
    const auto big = [](int64_t step) {
      CheckpointContent content = MakeContent(step);
      content.state.tensors.push_back(
          {"weight", "c", {1'000'000}, 0, RandomTensor({1'000'000}, step)});
      return content;
    };
    ASSERT_EQ(mount("", folder_.c_str(), "", MS_REMOUNT, "size=10M"), 0);
    for (int64_t step = 1; step <= 4; ++step) {
      ASSERT_TRUE(saver.Save(big(step)).ok());
      const absl::Status status = saver.Wait();
      ASSERT_TRUE(status.ok()) << status;
      const std::vector<std::string> notes = saver.TakeNotes();
      if (step < 3) {
        EXPECT_THAT(notes, ElementsAre());
        continue;
      }
      EXPECT_THAT(notes, ElementsAre(HasSubstr("removed 1 older checkpoint to make room")));
      EXPECT_THAT(*folder->Steps(), ElementsAre(step - 1, step));
      EXPECT_EQ(Newest(*folder), step);
    }
  });
  with_a_disk.join();
}

// A background write stores the state at the time of Save.
TEST_F(CheckpointTest, TheStateMayChangeWhileItIsWritten) {
  auto folder = Open();
  CheckpointSaver saver(folder.get(), {});
  const CheckpointContent expected = MakeContent(3);
  CheckpointContent content = MakeContent(3);
  ASSERT_TRUE(saver.Save(content).ok());
  for (StateTensor& tensor : content.state.tensors) tensor.part.FillZero();
  ASSERT_TRUE(saver.Wait().ok());
  const auto checkpoint = Checkpoint::Open(folder->PathOf(3));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(Difference(**checkpoint, expected), "");
  EXPECT_EQ(saver.stats().num_saved, 1);
  EXPECT_GT(saver.stats().bytes, 0);
}

TEST(CopyStateTest, CopiesAllWithAnyNumberOfThreads) {
  SessionState state;
  state.tensors.push_back({"weight", "big", {3'000'000}, 0, RandomTensor({3'000'000}, 1)});
  state.tensors.push_back({"weight", "small", {3}, 0, RandomTensor({3}, 2)});
  for (int threads : {0, 1, 2, 7}) {
    const SessionState copy = CopyState(state, threads);
    for (int i : {0, 1}) {
      const Tensor& a = state.tensors[i].part;
      const Tensor& b = copy.tensors[i].part;
      ASSERT_NE(a.raw_data(), b.raw_data());
      EXPECT_EQ(std::memcmp(a.raw_data(), b.raw_data(), a.size_bytes()), 0) << threads;
    }
  }
  EXPECT_TRUE(CopyState({}, 2).tensors.empty());
}

TEST(CopyStateTest, PrivateTensorsAreNotCopied) {
  SessionState state;
  state.tensors.push_back({"weight", "a", {3}, 0, RandomTensor({3}, 1)});
  state.tensors.push_back({"weight", "b", {3}, 0, RandomTensor({3}, 2), /*is_private=*/true});
  const SessionState copy = CopyState(state, 1);
  EXPECT_NE(copy.tensors[0].part.raw_data(), state.tensors[0].part.raw_data());
  EXPECT_EQ(copy.tensors[1].part.raw_data(), state.tensors[1].part.raw_data());
}

TEST(CheckpointInfoTest, WrongOnesAreNamed) {
  const std::string right = CheckpointInfoText(MakeContent(4).info);
  ASSERT_TRUE(ParseCheckpointInfo(right).ok());
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = right;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return std::string(ParseCheckpointInfo(text).status().message());
  };
  EXPECT_THAT(message("{", "["), HasSubstr("this is not a dpipe.training_state"));
  EXPECT_THAT(message("\"version\": 1", "\"version\": 3"),
              HasSubstr("its version is 3, this program reads 1 and 2"));
  EXPECT_THAT(message("\"seed\"", "\"sead\""), HasSubstr("'seed' is missing or not a number"));
  EXPECT_THAT(message("\"num_updates\": 4", "\"num_updates\": -5"), HasSubstr("-5 updates in 4"));
  EXPECT_THAT(message("\"0.001\"", "0.001"), HasSubstr("'config.lr' is not a string"));
}

TEST(CheckpointInfoTest, EarlierVersionsHadNoFingerprint) {
  std::string text = CheckpointInfoText(MakeContent(4).info);
  EXPECT_EQ(ParseCheckpointInfo(text)->data_fingerprint, "f00d");
  const std::string field = "\"data_fingerprint\": \"f00d\",";
  text.erase(text.find(field), field.size());
  const auto read = ParseCheckpointInfo(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->data_fingerprint, "");
}

// Programs that do not support such orders must refuse to resume the run.
TEST(CheckpointInfoTest, ALaterOrderIsKept) {
  CheckpointInfo info;
  info.step = 10;
  info.global_batch = 4;
  info.dataset_size = 12;
  info.order.first_step = 7;
  info.order.epochs_before = 2.5;
  const std::string text = CheckpointInfoText(info);
  EXPECT_THAT(text, HasSubstr("\"version\": 2"));
  const auto read = ParseCheckpointInfo(text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->order.first_step, 7);
  EXPECT_EQ(read->order.epochs_before, 2.5);
  EXPECT_EQ(read->epoch(), 1);
  EXPECT_EQ(read->epoch_position(), 0) << "3 steps of 4 after step 7";
  EXPECT_EQ(read->order.EpochsAt(13, 4, 12), 4.5);
  info.order.first_step = 11;
  EXPECT_FALSE(ParseCheckpointInfo(CheckpointInfoText(info)).ok());
}

TEST(CheckpointInfoTest, NaNLossIsReset) {
  CheckpointInfo info;
  info.loss_sum = std::nan("");
  info.loss_weight = 3;
  const auto read = ParseCheckpointInfo(CheckpointInfoText(info));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->loss_sum, 0);
  EXPECT_EQ(read->loss_weight, 0);
}

TEST(ManifestTest, NamesStayInTheFolder) {
  CheckpointManifest manifest;
  manifest.step = 3;
  manifest.files["a b.json"] = {5, 0xdeadbeef};
  const auto read = ParseManifest(ManifestText(manifest));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->files, manifest.files);
  EXPECT_EQ(read->step, 3);
  for (const char* name : {"../a", "/etc/passwd", "..", ""}) {
    CheckpointManifest outside;
    outside.files[name] = {};
    EXPECT_FALSE(ParseManifest(ManifestText(outside)).ok()) << name;
  }
  EXPECT_FALSE(ParseManifest("").ok());
}

}  // namespace
}  // namespace dpipe
