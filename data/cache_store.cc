#include "data/cache_store.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/files/crc32c.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMagic = "DPCACHE1";
constexpr const char* kSuffix = ".shard";
constexpr const char* kTemporarySuffix = ".tmp";
constexpr int64_t kAlignment = 64;
constexpr int64_t kHeaderBytes = 16;

int64_t Aligned(int64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

template <typename T>
T ReadNumber(const char* from) {
  T value;
  memcpy(&value, from, sizeof(value));  // x86-64 is little endian
  return value;
}

template <typename T>
void AppendNumber(T value, std::string* to) {
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Returns a name that no other store has, in this process or on another machine.
std::string UniqueName() {
  std::random_device random;
  return absl::StrFormat("%d-%08x%08x", getpid(), random(), random());
}

}  // namespace

struct CacheStore::Shard {
  explicit Shard(const std::string& path) : path(path) {}
  Shard(const Shard&) = delete;
  Shard& operator=(const Shard&) = delete;
  ~Shard() {
    if (start != nullptr) munmap(start, size);
  }

  const std::string path;
  void* start = nullptr;  // null: an empty file
  int64_t size = 0;
};

CacheStore::CacheStore(std::string folder, const CacheStoreOptions& options)
    : folder_(std::move(folder)), options_(options) {}

CacheStore::~CacheStore() {
  if (writing_ != nullptr) unlink(temporary_.c_str());
}

absl::StatusOr<std::unique_ptr<CacheStore>> CacheStore::Open(const std::string& folder,
                                                             const CacheStoreOptions& options) {
  DPIPE_RETURN_IF_ERROR(MakeFolder(folder));
  auto store = std::unique_ptr<CacheStore>(new CacheStore(folder, options));
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (absl::EndsWith(path, kTemporarySuffix)) continue;  // of another process or a crashed one
    if (!absl::EndsWith(path, kSuffix)) {
      return absl::InvalidArgumentError(
          absl::StrCat("cache folder ", folder, " contains ", path, ", which is not a cache file"));
    }
    paths.push_back(path);
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  }
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) DPIPE_RETURN_IF_ERROR(store->MapShard(path));
  return store;
}

absl::Status CacheStore::MapShard(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const OwnedFd fd, OpenRegularFile(path));
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return FileError("cannot open", path, errno);
  auto shard = std::make_unique<Shard>(path);
  shard->size = info.st_size;
  if (info.st_size > 0) {
    void* const start = mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, fd.get(), 0);
    if (start == MAP_FAILED) return FileError("cannot map", path, errno);
    shard->start = start;
  }
  IndexShard(*shard);
  shards_.push_back(std::move(shard));
  return absl::OkStatus();
}

// Reads headers and keys only. If records have the same key, the last one counts: it was added
// because the earlier ones were damaged.
void CacheStore::IndexShard(const Shard& shard) {
  const char* const start = static_cast<const char*>(shard.start);
  const auto magic_bytes = static_cast<int64_t>(kMagic.size());
  if (shard.size < magic_bytes || memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    ++num_damaged_;
    return;
  }
  int64_t at = Aligned(magic_bytes);
  while (at < shard.size) {
    const int64_t left = shard.size - at;
    const bool has_header = left >= kHeaderBytes;
    const uint64_t key_bytes = has_header ? ReadNumber<uint32_t>(start + at + 4) : 0;
    const uint64_t value_bytes = has_header ? ReadNumber<uint64_t>(start + at + 8) : 0;
    const uint64_t room = has_header ? static_cast<uint64_t>(left - kHeaderBytes) : 0;
    if (!has_header || key_bytes == 0 || key_bytes > room || value_bytes > room - key_bytes) {
      ++num_damaged_;  // the start of the next record is unknown
      return;
    }
    const int64_t size = kHeaderBytes + static_cast<int64_t>(key_bytes + value_bytes);
    places_[std::string(start + at + kHeaderBytes, key_bytes)] = {start + at, size};
    at = Aligned(at + size);
  }
}

std::optional<absl::string_view> CacheStore::Find(const std::string& key) const {
  Place place;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = places_.find(key);
    if (found == places_.end()) return std::nullopt;
    place = found->second;
  }
  const absl::string_view checked(place.record + 4, place.size - 4);
  if (Crc32c(checked) != ReadNumber<uint32_t>(place.record)) {
    std::lock_guard<std::mutex> lock(mutex_);
    ++num_damaged_;
    return std::nullopt;
  }
  return checked.substr(kHeaderBytes - 4 + key.size());
}

absl::Status CacheStore::Add(const std::string& key, absl::string_view value) {
  std::string head;
  AppendNumber<uint32_t>(0, &head);  // placeholder for the checksum
  AppendNumber(static_cast<uint32_t>(key.size()), &head);
  AppendNumber(static_cast<uint64_t>(value.size()), &head);
  head += key;
  const uint32_t crc = ExtendCrc32c(Crc32c(absl::string_view(head).substr(4)), value);
  memcpy(&head[0], &crc, sizeof(crc));

  std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status status = AppendLocked(head, value);
  if (!status.ok() && writing_ != nullptr) {
    writing_ = nullptr;  // ends with a partial record
    unlink(temporary_.c_str());
  }
  DPIPE_RETURN_IF_ERROR(status);
  return writing_->digest().size > options_.shard_bytes ? CommitLocked() : absl::OkStatus();
}

absl::Status CacheStore::AppendLocked(absl::string_view head, absl::string_view value) {
  if (writing_ == nullptr) {
    temporary_ = absl::StrCat(folder_, "/", UniqueName(), kTemporarySuffix);
    DPIPE_ASSIGN_OR_RETURN(writing_, DurableFile::Create(temporary_));
    DPIPE_RETURN_IF_ERROR(writing_->Append(kMagic));
  }
  const int64_t at = writing_->digest().size;
  DPIPE_RETURN_IF_ERROR(writing_->Append(std::string(Aligned(at) - at, '\0')));
  DPIPE_RETURN_IF_ERROR(writing_->Append(head));
  return writing_->Append(value);
}

absl::Status CacheStore::Commit() {
  std::lock_guard<std::mutex> lock(mutex_);
  return CommitLocked();
}

absl::Status CacheStore::CommitLocked() {
  if (writing_ == nullptr) return absl::OkStatus();
  const std::unique_ptr<DurableFile> file = std::move(writing_);
  const absl::Status finished = file->Finish();
  const absl::StatusOr<std::string> path =
      finished.ok() ? Publish(temporary_) : absl::StatusOr<std::string>(finished);
  unlink(temporary_.c_str());
  DPIPE_RETURN_IF_ERROR(path.status());
  DPIPE_RETURN_IF_ERROR(SyncFolder(folder_));
  return MapShard(*path);
}

absl::StatusOr<std::string> CacheStore::Publish(const std::string& temporary) {
  for (int number = static_cast<int>(shards_.size());; ++number) {
    const std::string path = absl::StrFormat("%s/%06d%s", folder_, number, kSuffix);
    if (link(temporary.c_str(), path.c_str()) == 0) return path;
    if (errno == EEXIST) continue;
    return FileError("cannot make", path, errno);
  }
}

int64_t CacheStore::num_entries() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(places_.size());
}

int64_t CacheStore::num_damaged() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return num_damaged_;
}

}  // namespace dpipe
