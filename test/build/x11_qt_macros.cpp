// These macros are defined by X11/Xlib.h, X11/X.h and Qt's qobjectdefs.h. LibTorch's headers fail
// after these.
#define Bool int
#define None 0L
#define Status int
#define Always 2
#define Success 0
#define True 1
#define False 0
#define Above 0
#define Below 1
#define Complex 0
#define Unsorted 0
#define slots
#define signals public
#define emit
#define foreach for

#include <ikebana/shard.hpp>

#include <string_view>

#define WORDS_OF(macro) WORDS(macro)
#define WORDS(...) #__VA_ARGS__

constexpr bool stands(std::string_view now, std::string_view before) { return now == before; }
static_assert(stands(WORDS_OF(Bool), "int"));
static_assert(stands(WORDS_OF(None), "0L"));
static_assert(stands(WORDS_OF(Status), "int"));
static_assert(stands(WORDS_OF(Always), "2"));
static_assert(stands(WORDS_OF(Success), "0"));
static_assert(stands(WORDS_OF(True), "1"));
static_assert(stands(WORDS_OF(False), "0"));
static_assert(stands(WORDS_OF(Above), "0"));
static_assert(stands(WORDS_OF(Below), "1"));
static_assert(stands(WORDS_OF(Complex), "0"));
static_assert(stands(WORDS_OF(Unsorted), "0"));
static_assert(stands(WORDS_OF(slots), ""));
static_assert(stands(WORDS_OF(signals), "public"));
static_assert(stands(WORDS_OF(emit), ""));
static_assert(stands(WORDS_OF(foreach), "for"));

int main() {}
