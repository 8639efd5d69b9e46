package text

// MaxTypos is the largest number of edits between a word and the name that Nearest suggests for it.
const MaxTypos = 2

// Nearest returns the name with the fewest edits from word, at most MaxTypos; of equally near names, the
// first. It returns "" if no name is near enough, or if the edits are as many as the bytes of word.
func Nearest(word string, names []string) (best string) {
	least := MaxTypos + 1
	for _, name := range names {
		if max(len(name), len(word))-min(len(name), len(word)) >= least {
			continue
		}
		if d := Distance(word, name); d < least && d < len(word) {
			best, least = name, d
		}
	}
	return best
}

// Distance counts the bytes to insert, delete or change to turn a into b. It is the Levenshtein distance.
func Distance(a, b string) int {
	row := make([]int, len(b)+1) // distances from the part of a read so far to each prefix of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
