package console

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Call makes a call whose answer is a stream of any length, which the caller reads and closes. A
// refusal is returned as an error, like that of the other calls. ctx bounds the whole stream.
func (c *Client) Call(ctx context.Context, method, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://sluice"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.unreachable(err)
	}
	if response.StatusCode >= http.StatusBadRequest {
		defer response.Body.Close()
		return nil, refusalOf(response.StatusCode, json.NewDecoder(io.LimitReader(response.Body, maxAnswer)))
	}
	return response, nil
}
