// The state of a checkpoint after a power failure depends on the order of sync calls: every file's
// content, the names in the folder, the folder's own name, and that name in the parent. This test
// records this program's calls before the system gets them.
#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/train/checkpoint/checkpoint_writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;

struct DiskCall {
  std::string what;  // "sync" or "rename"
  std::string path;  // for a rename, the new path
  int64_t size_bytes = 0;
};

std::vector<DiskCall>& DiskCalls() {
  static auto* const kCalls = new std::vector<DiskCall>;
  return *kCalls;
}

void Note(const std::string& what, const std::string& path) {
  struct stat found = {};
  (void)stat(path.c_str(), &found);
  DiskCalls().push_back({what, path, found.st_size});
}

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace dpipe

// Overrides the C library's functions.
extern "C" int fsync(int fd) {
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  std::error_code error;
  dpipe::Note("sync", std::filesystem::read_symlink(link, error).string());
  return dpipe::Real<int(int)>("fsync")(fd);
}

extern "C" int rename(const char* from, const char* to) noexcept {
  dpipe::Note("rename", to);
  return dpipe::Real<int(const char*, const char*)>("rename")(from, to);
}

extern "C" int renameat2(int from_fd, const char* from, int to_fd, const char* to,
                         unsigned int flags) noexcept {
  dpipe::Note("rename", to);
  using Renameat2 = int(int, const char*, int, const char*, unsigned int);
  return dpipe::Real<Renameat2>("renameat2")(from_fd, from, to_fd, to, flags);
}

namespace dpipe {
namespace {

CheckpointContent Content(int64_t step) {
  CheckpointContent content;
  content.info.step = step;
  content.texts["plan.textproto"] = "strategy: \"gpipe\"\n";
  const Tensor part = Tensor::Zeros(Device::Cpu(), Shape{5}, DType::kF32);
  content.state.tensors = {{"m", "a", {5}, 0, part}, {"weight", "a", {5}, 0, part}};
  return content;
}

class CheckpointSyncTest : public ::testing::Test {
 protected:
  CheckpointSyncTest()
      : parent_(fs::canonical(::testing::TempDir()).string() + "/" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(parent_);
    fs::create_directories(parent_);
  }

  // Writes the checkpoint and expects that at any moment the disk has either nothing by its name or
  // all of it.
  void WriteAndExpectOrder(int64_t step) {
    const std::string folder = parent_ + "/checkpoint";
    DiskCalls().clear();
    const auto written = WriteCheckpoint(folder, Content(step));
    ASSERT_TRUE(written.ok()) << written.status();
    std::map<std::string, int64_t> sizes;  // by name, of files synced before any folder
    std::vector<std::string> after;
    const std::string unfinished = folder + kUnfinishedSuffix;
    for (const DiskCall& call : DiskCalls()) {
      const fs::path path = call.path;
      if (call.what == "sync" && after.empty() && path.parent_path() == unfinished) {
        sizes[path.filename().string()] = call.size_bytes;
      } else {
        after.push_back(call.what + " " + fs::relative(path, parent_).string());
      }
    }
    EXPECT_THAT(after, ElementsAre("sync checkpoint.unfinished", "rename checkpoint", "sync ."));
    std::map<std::string, int64_t> in_folder;
    for (const auto& entry : fs::directory_iterator(folder)) {
      in_folder[entry.path().filename().string()] = entry.file_size();
    }
    EXPECT_EQ(sizes, in_folder);
    EXPECT_THAT(sizes, IsSupersetOf(std::map<std::string, int64_t>{
                           {"plan.textproto", in_folder["plan.textproto"]},
                           {"m.safetensors", in_folder["m.safetensors"]},
                           {"weight.safetensors", in_folder["weight.safetensors"]}}));
  }

  const std::string parent_;
};

TEST_F(CheckpointSyncTest, FilesThenFolderThenNameThenParent) { WriteAndExpectOrder(3); }

TEST_F(CheckpointSyncTest, SameOrderWhenReplacing) {
  WriteAndExpectOrder(3);
  WriteAndExpectOrder(3);
}

}  // namespace
}  // namespace dpipe
