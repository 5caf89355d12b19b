#include "data/tar_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "data/file_part.h"

namespace dpipe {
namespace {

constexpr int64_t kBlock = 512;

// How compressed files begin. No name of a member does, except bzip2's "BZh", which is left out.
struct Compression {
  absl::string_view magic;
  const char* program;
};
constexpr Compression kCompressions[] = {{"\x1f\x8b", "gzip"},
                                         {"\xfd"
                                          "7zX",
                                          "xz"},
                                         {"\x28\xb5\x2f\xfd", "zstd"}};

// A field up to its first NUL.
absl::string_view TextOf(absl::string_view field) { return field.substr(0, field.find('\0')); }

// A number in octal digits with spaces or NULs around, or, where its first bit is set, in base 256;
// -1 if it is neither or more than 2^62.
int64_t NumberOf(absl::string_view field) {
  constexpr int64_t kMax = int64_t{1} << 62;
  int64_t value = 0;
  if (static_cast<uint8_t>(field[0]) & 0x80) {
    value = static_cast<uint8_t>(field[0]) & 0x7f;
    for (const char byte : field.substr(1)) {
      if (value >= kMax >> 8) return -1;
      value = value << 8 | static_cast<uint8_t>(byte);
    }
    return value;
  }
  const auto is_padding = [](char c) { return c == ' ' || c == '\0'; };
  while (!field.empty() && is_padding(field.front())) field.remove_prefix(1);
  while (!field.empty() && field.front() >= '0' && field.front() <= '7') {
    if (value >= kMax >> 3) return -1;
    value = value << 3 | (field.front() - '0');
    field.remove_prefix(1);
  }
  return std::all_of(field.begin(), field.end(), is_padding) ? value : -1;
}

struct Header {
  std::string name;
  int64_t size;
  char type;
};

// Old writers summed signed bytes.
bool ChecksumHolds(absl::string_view block) {
  constexpr size_t kBegin = 148, kEnd = 156;  // of the checksum, which counts as spaces
  int64_t plain = 0, with_signs = 0;
  for (size_t i = 0; i < block.size(); ++i) {
    const char byte = i >= kBegin && i < kEnd ? ' ' : block[i];
    plain += static_cast<uint8_t>(byte);
    with_signs += static_cast<signed char>(byte);
  }
  const int64_t stored = NumberOf(block.substr(kBegin, kEnd - kBegin));
  return stored == plain || stored == with_signs;
}

Header ParseHeader(absl::string_view block) {
  Header header;
  header.size = NumberOf(block.substr(124, 12));
  header.type = block[156];
  header.name = std::string(TextOf(block.substr(0, 100)));
  const absl::string_view prefix = TextOf(block.substr(345, 155));
  // GNU's magic ends in spaces, and it has other fields there.
  if (block.substr(257, 6) == absl::string_view("ustar\0", 6) && !prefix.empty()) {
    header.name = absl::StrCat(prefix, "/", header.name);
  }
  return header;
}

// What an extension header says of the member after it.
struct Extension {
  std::string path;   // empty: nothing
  int64_t size = -1;  // -1: nothing
};

// Records "LENGTH KEY=VALUE\n", where LENGTH counts all of that.
bool ParsePax(absl::string_view records, Extension* extension) {
  while (!records.empty()) {
    const size_t space = records.find(' ');
    int64_t length = 0;
    if (space == absl::string_view::npos || space > 10 ||
        !absl::SimpleAtoi(records.substr(0, space), &length) ||
        length <= static_cast<int64_t>(space) + 1 ||
        length > static_cast<int64_t>(records.size()) || records[length - 1] != '\n') {
      return false;
    }
    const absl::string_view record = records.substr(space + 1, length - space - 2);
    records.remove_prefix(length);
    const size_t equals = record.find('=');
    if (equals == absl::string_view::npos) return false;
    const absl::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extension->path = std::string(TextOf(value));
    if (key == "size" && (!absl::SimpleAtoi(value, &extension->size) || extension->size < 0)) {
      return false;
    }
  }
  return true;
}

// Walks over the headers.
class Indexer {
 public:
  Indexer(const InputFile& file, const TarLimits& limits) : file_(file), limits_(limits) {}

  absl::StatusOr<std::vector<TarMember>> Run() {
    DPIPE_RETURN_IF_ERROR(CheckNotCompressed());
    for (int64_t count = 0;; ++count) {
      if (at_ + kBlock > file_.size()) {
        return Error("the file ends without an end mark: it was cut off, or is no tar");
      }
      if (count >= limits_.max_members) {
        return absl::ResourceExhaustedError(
            absl::StrCat(file_.path(), ": more than ", limits_.max_members, " members"));
      }
      DPIPE_ASSIGN_OR_RETURN(const std::string block, file_.Read(at_, kBlock));
      if (block.find_first_not_of('\0') == std::string::npos) return std::move(members_);
      if (!ChecksumHolds(block)) return Error("the header's checksum is wrong");
      DPIPE_RETURN_IF_ERROR(Take(ParseHeader(block)));
    }
  }

 private:
  absl::Status CheckNotCompressed() const {
    DPIPE_ASSIGN_OR_RETURN(const std::string start,
                           file_.Read(0, std::min<int64_t>(file_.size(), 4)));
    for (const Compression& compression : kCompressions) {
      if (start.substr(0, compression.magic.size()) != compression.magic) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          file_.path(), ": compressed by ", compression.program,
          ", where no member can be read without those before it; unpack it to a .tar first: ",
          compression.program, " -d -k ", file_.path()));
    }
    return absl::OkStatus();
  }

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_.path(), ": at byte ", at_, " of ", file_.size(), ": ", what));
  }

  // Goes on to the next header.
  absl::Status Take(Header header) {
    const bool is_extension = header.type == 'x' || header.type == 'L';
    if (!is_extension && extension_.size >= 0) header.size = extension_.size;
    const int64_t begin = at_ + kBlock;
    if (header.size < 0) {
      return Error(
          absl::StrCat("the size of member ", header.name.substr(0, 100), " is no number"));
    }
    if (header.size > file_.size() - begin) {
      return Error(absl::StrCat("member ", header.name.substr(0, 100), " of ", header.size,
                                " bytes ends past the file"));
    }
    if (is_extension) {
      DPIPE_RETURN_IF_ERROR(TakeExtension(header, begin));
    } else if (header.type == 'S') {
      return absl::UnimplementedError(
          absl::StrCat(file_.path(), ": ", header.name, " is a sparse member"));
    } else if (header.type == '0' || header.type == '\0' || header.type == '7') {
      DPIPE_RETURN_IF_ERROR(TakeMember(header, begin));
      extension_ = {};
    } else if (header.type != 'K' && header.type != 'g') {
      extension_ = {};  // it was a folder's, or a link's
    }
    at_ = begin + (header.size + kBlock - 1) / kBlock * kBlock;
    return absl::OkStatus();
  }

  absl::Status TakeExtension(const Header& header, int64_t begin) {
    if (header.size > limits_.max_extension_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(file_.path(), ": at byte ", at_, ": an extension header of ", header.size,
                       " bytes, more than the limit of ", limits_.max_extension_bytes));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::string bytes, file_.Read(begin, header.size));
    if (header.type == 'L') {
      extension_.path = std::string(TextOf(bytes));
      return absl::OkStatus();
    }
    return ParsePax(bytes, &extension_) ? absl::OkStatus() : Error("a malformed pax header");
  }

  absl::Status TakeMember(Header& header, int64_t begin) {
    if (!extension_.path.empty()) header.name = extension_.path;
    if (header.name.substr(0, 2) == "./") header.name.erase(0, 2);
    // A name that ends in a slash was a folder's before folders had a type.
    if (header.name.empty()) return Error("a member without a name");
    if (header.name.back() == '/') return absl::OkStatus();
    if (static_cast<int64_t>(header.name.size()) > limits_.max_name_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(file_.path(), ": at byte ", at_, ": a name of ", header.name.size(),
                       " bytes, more than the limit of ", limits_.max_name_bytes));
    }
    members_.push_back({std::move(header.name), begin, header.size});
    return absl::OkStatus();
  }

  const InputFile& file_;
  const TarLimits& limits_;
  int64_t at_ = 0;  // of the next header
  Extension extension_;
  std::vector<TarMember> members_;
};

}  // namespace

absl::StatusOr<std::vector<TarMember>> ReadTarIndex(const std::string& path,
                                                    const TarLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return Indexer(file, limits).Run();
}

}  // namespace dpipe
