#include "data/tars/tar_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/text/file_kind.h"
#include "core/base/text/show.h"
#include "data/tars/file_part.h"

namespace dpipe {
namespace {

constexpr int64_t kBlock = 512;

// Returns a field up to its first NUL.
absl::string_view TextOf(absl::string_view field) { return field.substr(0, field.find('\0')); }

// Parses octal digits surrounded by spaces or NULs, or base 256 if the first bit is set. Returns -1
// if it is neither, or more than 2^62.
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

bool IsZero(absl::string_view bytes) {
  return bytes.find_first_not_of('\0') == absl::string_view::npos;
}

// Rounds up to the next header. Cannot overflow, because no size exceeds the file's.
int64_t Padded(int64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

// The programs that unpack compressed files.
struct Compression {
  FileKind kind;
  const char* program;
};
constexpr Compression kCompressions[] = {{FileKind::kGzip, "gzip"},
                                         {FileKind::kBzip2, "bzip2"},
                                         {FileKind::kXz, "xz"},
                                         {FileKind::kZstd, "zstd"}};

struct Header {
  std::string name;
  int64_t size;
  char type;
};

// Some old programs summed signed bytes.
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

// The information in an extension header about the member after it.
struct Extension {
  std::string path;   // empty if not given
  int64_t size = -1;  // -1 if not given
};

// Parses records "LENGTH KEY=VALUE\n", in which LENGTH counts the whole record.
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

  absl::StatusOr<TarIndex> Run() {
    DPIPE_RETURN_IF_ERROR(CheckIsTar());
    index_.file_bytes = file_.size();
    for (int64_t count = 0; index_.damage.empty(); ++count) {
      if (at_ + kBlock > file_.size()) {
        Damage("the file ends without an end mark; it may be truncated");
        break;
      }
      if (count >= limits_.max_members) {
        return absl::InvalidArgumentError(
            absl::StrCat(file_.path(), ": more than ", limits_.max_members, " members"));
      }
      DPIPE_ASSIGN_OR_RETURN(const std::string block, file_.Read(at_, kBlock));
      if (IsZero(block)) {
        DPIPE_ASSIGN_OR_RETURN(const bool goes_on, SkipToNextArchive());
        if (!goes_on) break;
      } else if (!ChecksumHolds(block)) {
        Damage("the header's checksum is wrong");
      } else {
        DPIPE_RETURN_IF_ERROR(Take(ParseHeader(block)));
      }
    }
    return std::move(index_);
  }

 private:
  // Checks the first header only.
  absl::Status CheckIsTar() const {
    const int64_t num_bytes = std::min<int64_t>(file_.size(), kFileKindBytes);
    DPIPE_ASSIGN_OR_RETURN(const std::string start, file_.Read(0, num_bytes));
    const absl::string_view block = absl::string_view(start).substr(0, kBlock);
    if (block.size() == kBlock && (IsZero(block) || ChecksumHolds(block))) return absl::OkStatus();
    const FileKind kind = KindOfFile(start);
    std::string what = absl::StrCat("not a tar archive but ", FileKindName(kind));
    const absl::string_view advice = FileKindAdvice(kind);
    if (kind == FileKind::kTar) {
      what =
          absl::StrCat("at byte 0 of ", file_.size(),
                       block.size() < kBlock ? ": truncated" : ": the header's checksum is wrong");
    }
    if (!advice.empty()) absl::StrAppend(&what, ": ", advice);
    for (const Compression& compression : kCompressions) {
      if (compression.kind != kind) continue;
      what = absl::StrCat("compressed by ", compression.program,
                          ", which allows no random access; unpack it to a .tar first: ",
                          compression.program, " -d -k ", file_.path());
    }
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": ", what));
  }

  void Damage(absl::string_view what) {
    index_.damage = absl::StrCat(file_.path(), ": at byte ", at_, " of ", file_.size(), ": ", what);
  }

  // Moves from an end mark to the header of an archive after it. Returns false if there is none.
  absl::StatusOr<bool> SkipToNextArchive() {
    constexpr int64_t kPieceBytes = 64 << 10;
    const int64_t begin = at_;
    const int64_t end = std::min(file_.size(), begin + limits_.max_padding_bytes);
    bool is_zero = true;
    while (is_zero && at_ < end) {
      DPIPE_ASSIGN_OR_RETURN(const std::string piece,
                             file_.Read(at_, std::min(kPieceBytes, end - at_)));
      const size_t first = piece.find_first_not_of('\0');
      is_zero = first == std::string::npos;
      at_ += is_zero ? piece.size() : first / kBlock * kBlock;
    }
    if (at_ == file_.size()) return false;
    if (!is_zero && at_ + kBlock <= file_.size()) {
      DPIPE_ASSIGN_OR_RETURN(const std::string block, file_.Read(at_, kBlock));
      if (ChecksumHolds(block)) {
        extension_ = {};
        ++archive_;
        return true;
      }
    }
    index_.rest = absl::StrCat(file_.path(), ": ", file_.size() - at_, " bytes from byte ", at_,
                               ", after the end mark, are not an archive and are ignored");
    return false;
  }

  // Processes a header and moves to the next one.
  absl::Status Take(Header header) {
    const bool is_extension = header.type == 'x' || header.type == 'L';
    if (!is_extension && extension_.size >= 0) header.size = extension_.size;
    const int64_t begin = at_ + kBlock;
    if (header.size < 0) {
      Damage(absl::StrCat("the size of member ", ShowText(header.name), " is not a number"));
      return absl::OkStatus();
    }
    if (header.type == 'S') {
      return absl::UnimplementedError(
          absl::StrCat(file_.path(), ": ", ShowText(header.name), " is a sparse member"));
    }
    const bool is_cut = header.size > file_.size() - begin;
    if (is_cut) {
      Damage(absl::StrCat("member ", ShowText(header.name), " of ", header.size,
                          " bytes extends past the end of the file, which is truncated"));
    }
    if (is_extension) {
      return is_cut ? absl::OkStatus() : TakeExtension(header, begin);
    }
    const bool is_file = header.type == '0' || header.type == '\0' || header.type == '7';
    index_.num_links += header.type == '1' || header.type == '2';
    if (is_file) DPIPE_RETURN_IF_ERROR(TakeMember(header, begin));
    // For other kinds, the extension belonged to a folder or a link. 'K' and 'g' precede the
    // member.
    if (header.type != 'K' && header.type != 'g') extension_ = {};
    if (!is_cut) at_ = begin + Padded(header.size);
    return absl::OkStatus();
  }

  absl::Status TakeExtension(const Header& header, int64_t begin) {
    if (header.size > limits_.max_extension_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": at byte ", at_, ": an extension header of ", header.size,
                       " bytes, more than the limit of ", limits_.max_extension_bytes));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::string bytes, file_.Read(begin, header.size));
    if (header.type == 'L') {
      extension_.path = std::string(TextOf(bytes));
      at_ = begin + Padded(header.size);
      return absl::OkStatus();
    }
    if (!ParsePax(bytes, &extension_)) {
      Damage("a malformed pax header");
    } else {
      at_ = begin + Padded(header.size);
    }
    return absl::OkStatus();
  }

  absl::Status TakeMember(Header& header, int64_t begin) {
    if (!extension_.path.empty()) header.name = extension_.path;
    if (header.name.substr(0, 2) == "./") header.name.erase(0, 2);
    // Before folders had a type, a name ending in a slash was a folder's.
    if (header.name.empty()) {
      Damage("a member without a name");
      return absl::OkStatus();
    }
    if (header.name.back() == '/') return absl::OkStatus();
    if (static_cast<int64_t>(header.name.size()) > limits_.max_name_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), ": at byte ", at_, ": a name of ", header.name.size(),
                       " bytes, more than the limit of ", limits_.max_name_bytes));
    }
    index_.members.push_back({std::move(header.name), begin, header.size, archive_});
    return absl::OkStatus();
  }

  const InputFile& file_;
  const TarLimits& limits_;
  int64_t at_ = 0;  // position of the next header
  Extension extension_;
  int32_t archive_ = 0;
  TarIndex index_;
};

}  // namespace

absl::StatusOr<TarIndex> ReadTarIndex(const std::string& path, const TarLimits& limits) {
  DPIPE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  return Indexer(file, limits).Run();
}

}  // namespace dpipe
